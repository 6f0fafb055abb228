package audio

import (
	"context"
	"io"
	"sync"
)

// cancelReader lets a context interrupt reads from a reader that cannot be interrupted, such as a terminal or a pipe. Its
// goroutine ends with the first read that returns after Close.
type cancelReader struct {
	ctx    context.Context
	blocks chan block
	closed chan struct{}
	once   sync.Once
	rest   []byte
	err    error
}

type block struct {
	data []byte
	err  error
}

func newCancelReader(ctx context.Context, r io.Reader) *cancelReader {
	c := &cancelReader{ctx: ctx, blocks: make(chan block), closed: make(chan struct{})}
	go func() {
		// While one buffer is being used, the other is being filled.
		var bufs [2][bufferSize / 2]byte
		for i := 0; ; i ^= 1 {
			n, err := r.Read(bufs[i][:])
			select {
			case c.blocks <- block{bufs[i][:n], err}:
			case <-c.closed:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return c
}

func (c *cancelReader) Read(p []byte) (int, error) {
	if len(c.rest) == 0 && c.err == nil {
		select {
		case b := <-c.blocks:
			c.rest, c.err = b.data, b.err
		case <-c.ctx.Done():
			c.err = context.Cause(c.ctx)
		case <-c.closed:
			c.err = io.ErrClosedPipe
		}
	}
	if len(c.rest) > 0 {
		n := copy(p, c.rest)
		c.rest = c.rest[n:]
		return n, nil
	}
	return 0, c.err
}

func (c *cancelReader) close() { c.once.Do(func() { close(c.closed) }) }
