package main

import (
	"fmt"
	"io"
	"sync"
)

// console prints messages on standard error. Nothing but transcripts goes to standard output.
type console struct {
	mu      sync.Mutex
	w       io.Writer
	quiet   bool // errors only
	verbose bool
	bar     *progress // cleared before a message is printed; may be nil
}

// printf ignores errors: there is nowhere else to report them.
func (c *console) printf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bar.clear()
	_, _ = fmt.Fprintf(c.w, "voxtral: "+format+"\n", args...)
}

// newline keeps a message off the line on which text is being streamed.
func (c *console) newline() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = io.WriteString(c.w, "\n")
}

func (c *console) error(err error) { c.printf("%s", plain(err)) }

func (c *console) warn(subject, message string) {
	if !c.quiet {
		c.printf("warning: %s: %s", subject, message)
	}
}

func (c *console) note(message string) {
	if !c.quiet {
		c.printf("%s", message)
	}
}

func (c *console) detail(format string, args ...any) {
	if c.verbose {
		c.printf(format, args...)
	}
}

// begin, progress and end move the bar, if there is one.
func (c *console) begin(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bar.begin(name)
}

func (c *console) progress(done, total int64, words string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bar.update(done, total, words)
}

func (c *console) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bar.end()
}
