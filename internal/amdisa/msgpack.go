package amdisa

import (
	"encoding/binary"
	"errors"
	"math"
)

var errMsgpack = errors.New("truncated or unknown MessagePack")

// msgpack decodes the subset of MessagePack that code-object metadata uses: maps become map[string]any, lists []any,
// integers int64, strings string.
type msgpack struct {
	b     []byte
	depth int
}

func (m *msgpack) take(n int) ([]byte, error) {
	if n < 0 || n > len(m.b) {
		return nil, errMsgpack
	}
	out := m.b[:n]
	m.b = m.b[n:]
	return out, nil
}

func (m *msgpack) uint(n int) (uint64, error) {
	b, err := m.take(n)
	if err != nil {
		return 0, err
	}
	var pad [8]byte
	copy(pad[8-n:], b)
	return binary.BigEndian.Uint64(pad[:]), nil
}

func (m *msgpack) value() (any, error) {
	if m.depth > 32 {
		return nil, errMsgpack
	}
	t, err := m.uint(1)
	if err != nil {
		return nil, err
	}
	switch {
	case t < 0x80:
		return int64(t), nil
	case t < 0x90:
		return m.mapping(int(t & 15))
	case t < 0xa0:
		return m.list(int(t & 15))
	case t < 0xc0:
		return m.text(int(t & 31))
	case t >= 0xe0:
		return int64(int8(t)), nil
	}
	size := func(n int) int { // the length that follows; -1 fails in take
		v, e := m.uint(n)
		if e != nil || v > math.MaxInt32 {
			return -1
		}
		return int(v)
	}
	switch t {
	case 0xc0:
		return nil, nil
	case 0xc2, 0xc3:
		return t == 0xc3, nil
	case 0xc4, 0xc5, 0xc6:
		return m.text(size(1 << (t - 0xc4)))
	case 0xcc, 0xcd, 0xce, 0xcf:
		v, e := m.uint(1 << (t - 0xcc))
		return int64(v), e
	case 0xd0, 0xd1, 0xd2, 0xd3:
		n := 1 << (t - 0xd0)
		v, e := m.uint(n)
		return int64(v<<(64-8*n)) >> (64 - 8*n), e
	case 0xd9, 0xda, 0xdb:
		return m.text(size(1 << (t - 0xd9)))
	case 0xdc, 0xdd:
		return m.list(size(2 << (t - 0xdc)))
	case 0xde, 0xdf:
		return m.mapping(size(2 << (t - 0xde)))
	}
	return nil, errMsgpack
}

func (m *msgpack) text(n int) (any, error) {
	b, err := m.take(n)
	return string(b), err
}

func (m *msgpack) list(n int) (any, error) {
	if n < 0 || n > len(m.b) {
		return nil, errMsgpack
	}
	m.depth++
	defer func() { m.depth-- }()
	out := make([]any, 0, n)
	for range n {
		v, err := m.value()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (m *msgpack) mapping(n int) (any, error) {
	if n < 0 || n > len(m.b) {
		return nil, errMsgpack
	}
	m.depth++
	defer func() { m.depth-- }()
	out := map[string]any{}
	for range n {
		k, err := m.value()
		if err != nil {
			return nil, err
		}
		name, ok := k.(string)
		if !ok {
			return nil, errMsgpack
		}
		if out[name], err = m.value(); err != nil {
			return nil, err
		}
	}
	return out, nil
}
