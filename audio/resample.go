package audio

import (
	"fmt"
	"math"
	"sync"
)

// The low-pass kernel is one windowed sinc for every ratio, written in units of its own zero crossings. With these values
// the pass band reaches 0.9 of the lower Nyquist frequency and everything that would fold back lies below -120 dB.
const (
	kernelZeros   = 64     // zero crossings on each side
	kernelBeta    = 14.77  // Kaiser window
	kernelRolloff = 0.9476 // -6 dB point as a share of the lower Nyquist frequency
	kernelPerZero = 1024   // points per zero crossing in the shared table

	// phaseTable bounds a resampler's own table to 512 KiB. It is kernelPerZero rows for an upsampler's 128 taps, and as fine
	// in zero crossings for a downsampler's longer rows, so that linear interpolation between rows errs below -115 dB.
	phaseTable = 2 * kernelZeros * kernelPerZero

	minRate, maxRate = 4000, 192000 // Hz
)

// Resampler converts mono PCM between two sample rates with a polyphase windowed sinc. It is incremental: any split of
// the input gives bit-equal output. The filter's delay is compensated, so a click keeps its time, and n input samples
// give ceil(n*to/from) output samples once flushed. The zero value is not usable; call NewResampler.
type Resampler struct {
	up, down int       // to/from in lowest terms
	taps     int       // input samples per output sample
	rows     []float32 // phase rows of taps coefficients each
	steps    int       // rows per input sample: up when exact, fewer when rows are interpolated

	buf   []float32 // input from the next output's first tap on
	phase int       // position of the next output between two input samples, in 1/up
}

// NewResampler returns a resampler between two rates in Hz, both within 4000..192000.
func NewResampler(from, to int) (*Resampler, error) {
	for _, rate := range []int{from, to} {
		if rate < minRate || rate > maxRate {
			return nil, fmt.Errorf("audio: cannot resample %d Hz to %d Hz: rates must be within %d..%d Hz", from, to, minRate, maxRate)
		}
	}
	g := gcd(from, to)
	r := &Resampler{up: to / g, down: from / g}
	if from == to {
		return r, nil
	}
	scale := min(1, float64(to)/float64(from)) // zero crossings per input sample
	half := int(math.Ceil(kernelZeros/scale/4)) * 4
	r.taps = 2 * half
	r.steps = min(r.up, phaseTable/r.taps)
	r.rows = make([]float32, (r.steps+1)*r.taps)
	for row := range r.steps + 1 {
		at := float64(row) / float64(r.steps)
		for i := range r.taps {
			r.rows[row*r.taps+i] = float32(scale * kernelAt((float64(i-half+1)-at)*scale))
		}
	}
	r.reset()
	return r, nil
}

func (r *Resampler) reset() {
	r.phase = 0
	r.buf = append(r.buf[:0], make([]float32, max(0, r.taps/2-1))...)
}

// Write appends to dst every output sample that in completes, and returns the extended slice.
func (r *Resampler) Write(dst, in []float32) []float32 {
	if r.up == r.down {
		return append(dst, in...)
	}
	const block = 4096 // keeps buf small when a whole file comes at once
	for len(in) > 0 {
		n := min(len(in), block)
		r.buf = append(r.buf, in[:n]...)
		in = in[n:]
		dst = r.emit(dst)
	}
	return dst
}

// Flush appends the samples still held back, as if silence followed, and makes r ready for a new signal.
func (r *Resampler) Flush(dst []float32) []float32 {
	if r.up == r.down {
		return dst
	}
	r.buf = append(r.buf, make([]float32, r.taps/2)...)
	dst = r.emit(dst)
	r.reset()
	return dst
}

func (r *Resampler) emit(dst []float32) []float32 {
	start := 0
	for start+r.taps <= len(r.buf) {
		window := r.buf[start : start+r.taps]
		if r.steps == r.up {
			dst = append(dst, dot(r.rows[r.phase*r.taps:], window))
		} else {
			row := r.phase * r.steps / r.up
			rest := float32(r.phase*r.steps%r.up) / float32(r.up)
			a := dot(r.rows[row*r.taps:], window)
			b := dot(r.rows[(row+1)*r.taps:], window)
			dst = append(dst, a+rest*(b-a))
		}
		r.phase += r.down
		start += r.phase / r.up
		r.phase %= r.up
	}
	r.buf = r.buf[:copy(r.buf, r.buf[start:])]
	return dst
}

// dot sums a[i]*b[i] over b, whose length is a multiple of 8, always in the same order.
func dot(a, b []float32) float32 {
	a = a[:len(b)]
	var s0, s1, s2, s3 float32
	for len(b) >= 8 && len(a) >= 8 {
		s0 += a[0]*b[0] + a[4]*b[4]
		s1 += a[1]*b[1] + a[5]*b[5]
		s2 += a[2]*b[2] + a[6]*b[6]
		s3 += a[3]*b[3] + a[7]*b[7]
		a, b = a[8:], b[8:]
	}
	return (s0 + s1) + (s2 + s3)
}

// kernel holds the right half of the symmetric low-pass at kernelPerZero points per zero crossing, and one point more.
var kernel = sync.OnceValue(func() []float64 {
	k := make([]float64, kernelZeros*kernelPerZero+2)
	for i := range k {
		u := float64(i) / kernelPerZero
		edge := u / kernelZeros
		window := besselI0(kernelBeta*math.Sqrt(max(0, 1-edge*edge))) / besselI0(kernelBeta)
		sinc := 1.0
		if x := math.Pi * kernelRolloff * u; x > 0 {
			sinc = math.Sin(x) / x
		}
		k[i] = kernelRolloff * sinc * window
	}
	return k
})

// kernelAt interpolates the kernel at u zero crossings from its centre with a cubic through four table points.
func kernelAt(u float64) float64 {
	k := kernel()
	at := math.Abs(u) * kernelPerZero
	i := int(at)
	if i+2 >= len(k) {
		return 0
	}
	f := at - float64(i)
	before := k[1] // the kernel is even
	if i > 0 {
		before = k[i-1]
	}
	return -f*(f-1)*(f-2)/6*before + (f+1)*(f-1)*(f-2)/2*k[i] - (f+1)*f*(f-2)/2*k[i+1] + (f+1)*f*(f-1)/6*k[i+2]
}

// besselI0 is the modified Bessel function of the first kind and order zero, by its power series.
func besselI0(x float64) float64 {
	sum, term := 1.0, 1.0
	for n := 1.0; term > 1e-17*sum; n++ {
		term *= (x / (2 * n)) * (x / (2 * n))
		sum += term
	}
	return sum
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
