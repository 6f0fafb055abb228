package capture

import "sync/atomic"

// ring carries samples from one writer to one reader without locks: a device's callback must never wait. What does not
// fit is dropped and counted.
type ring struct {
	buf        []float32 // its length is a power of two
	read       atomic.Uint64
	written    atomic.Uint64
	overflowed atomic.Uint64 // samples
}

// newRing has room for at least so many samples.
func newRing(samples int) *ring {
	size := 1
	for size < samples {
		size *= 2
	}
	return &ring{buf: make([]float32, size)}
}

// write copies whole frames of so many channels, as many as fit. Only the writer calls it.
func (r *ring) write(samples []float32, channels int) {
	at := r.written.Load()
	free := len(r.buf) - int(at-r.read.Load())
	n := min(len(samples), free) / channels * channels
	r.overflowed.Add(uint64(len(samples) - n))
	start := int(at % uint64(len(r.buf)))
	first := copy(r.buf[start:], samples[:n])
	copy(r.buf, samples[first:n])
	r.written.Store(at + uint64(n)) // after the samples: the reader may take them now
}

// take moves what is there into dst. Only the reader calls it.
func (r *ring) take(dst []float32) int {
	at := r.read.Load()
	n := min(len(dst), int(r.written.Load()-at))
	start := int(at % uint64(len(r.buf)))
	first := copy(dst[:n], r.buf[start:])
	copy(dst[first:n], r.buf)
	r.read.Store(at + uint64(n)) // after the samples: the writer may use their place now
	return n
}
