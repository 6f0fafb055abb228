package models

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"strconv"
)

// cursor reads JSON in place. Checkpoints come from strangers and their headers run to megabytes; walking the bytes
// keeps memory bounded by what is kept, where a general decoder would first build a tree. The first error sticks.
type cursor struct {
	data  []byte
	pos   int
	depth int
	err   error
}

// maxDepth is far above what any model file nests.
const maxDepth = 64

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("byte %d: %s", c.pos, fmt.Sprintf(format, args...))
	}
}

// peek skips white space and returns the next byte, 0 at the end.
func (c *cursor) peek() byte {
	for c.pos < len(c.data) {
		switch b := c.data[c.pos]; b {
		case ' ', '\t', '\n', '\r':
			c.pos++
		default:
			return b
		}
	}
	return 0
}

func (c *cursor) expect(want byte) bool {
	if c.err != nil {
		return false
	}
	if got := c.peek(); got != want {
		if c.pos >= len(c.data) {
			c.fail("the JSON ends where %q should be", want)
		} else {
			c.fail("found %q where %q should be", got, want)
		}
		return false
	}
	c.pos++
	return true
}

// object yields the keys of an object, as views of the input; the loop body must consume each value. Keys may be
// duplicates.
func (c *cursor) object() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		c.members('{', '}', func() bool {
			key := c.unquoted()
			return c.expect(':') && yield(key)
		})
	}
}

// array yields the indices of an array; the loop body must consume each element.
func (c *cursor) array() iter.Seq[int] {
	return func(yield func(int) bool) {
		i := -1
		c.members('[', ']', func() bool {
			i++
			return yield(i)
		})
	}
}

func (c *cursor) members(open, end byte, member func() bool) {
	if !c.expect(open) {
		return
	}
	if c.depth++; c.depth > maxDepth {
		c.fail("nested deeper than %d", maxDepth)
		return
	}
	defer func() { c.depth-- }()
	if c.peek() == end {
		c.pos++
		return
	}
	for c.err == nil && member() && c.err == nil {
		if c.peek() != ',' {
			c.expect(end)
			return
		}
		c.pos++
	}
}

// quoted returns the bytes of a string with its quotes.
func (c *cursor) quoted() []byte {
	if !c.expect('"') {
		return nil
	}
	start := c.pos - 1
	for c.pos < len(c.data) {
		switch b := c.data[c.pos]; {
		case b == '"':
			c.pos++
			return c.data[start:c.pos]
		case b == '\\':
			c.pos += 2
		case b < ' ':
			c.fail("control character in a string")
			return nil
		default:
			c.pos++
		}
	}
	c.pos = start
	c.fail("string without an end")
	return nil
}

// text reads a string.
func (c *cursor) text() string { return string(c.unquoted()) }

// unquoted reads a string; without escapes it is a view of the input.
func (c *cursor) unquoted() []byte {
	q := c.quoted()
	if q == nil {
		return nil
	}
	if bytes.IndexByte(q, '\\') < 0 {
		return q[1 : len(q)-1]
	}
	// Go's escapes contain JSON's but for \/ and surrogate pairs, which no name or setting of a model has.
	s, err := strconv.Unquote(string(q))
	if err != nil {
		c.fail("string %s has an escape that is not supported", clip(q))
	}
	return []byte(s)
}

// integer reads a whole number that fits 63 bits and is not negative.
func (c *cursor) integer() int64 {
	raw := c.value()
	n, err := strconv.ParseUint(string(raw), 10, 63)
	if err != nil {
		c.fail("found %s where a whole number should be", clip(raw))
	}
	return int64(n)
}

// value skips one value of any kind and returns its bytes.
func (c *cursor) value() []byte {
	first := c.peek()
	start := c.pos
	switch first {
	case '{':
		c.members('{', '}', func() bool { c.quoted(); c.expect(':'); c.value(); return true })
	case '[':
		c.members('[', ']', func() bool { c.value(); return true })
	case '"':
		c.quoted()
	default:
		for c.pos < len(c.data) && bytes.IndexByte([]byte(" \t\n\r,:]}[{\""), c.data[c.pos]) < 0 {
			c.pos++
		}
		if raw := c.data[start:c.pos]; !isLiteral(raw) {
			c.fail("found %s where a value should be", clip(raw))
		}
	}
	if c.err != nil {
		return nil
	}
	return c.data[start:c.pos]
}

// isLiteral recognises true, false, null and numbers, these a little more freely than JSON does.
func isLiteral(raw []byte) bool {
	switch string(raw) {
	case "true", "false", "null":
		return true
	}
	for _, b := range raw {
		if bytes.IndexByte([]byte("0123456789+-.eE"), b) < 0 {
			return false
		}
	}
	_, err := strconv.ParseFloat(string(raw), 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// end checks that nothing but white space follows.
func (c *cursor) end() {
	if c.err == nil && (c.peek() != 0 || c.pos < len(c.data)) {
		c.fail("something follows the end of the JSON")
	}
}

// find returns the value at a path of keys, nil if it or one of its parents is missing or null.
func find(doc []byte, path ...string) []byte {
	for _, want := range path {
		c := cursor{data: doc}
		if c.peek() != '{' {
			return nil
		}
		var found []byte
		for key := range c.object() {
			if v := c.value(); string(key) == want && found == nil {
				found = v
			}
		}
		if found == nil || c.err != nil {
			return nil
		}
		doc = found
	}
	if string(doc) == "null" {
		return nil
	}
	return doc
}

// clip shortens raw input for an error message.
func clip(raw []byte) string {
	const most = 40
	if len(raw) > most {
		return strconv.Quote(string(raw[:most])) + "…"
	}
	return strconv.Quote(string(raw))
}
