package audio

import (
	"encoding/binary"
	"math"
)

// A decodeFunc turns len(dst) little-endian samples of its own width into values of full scale 1.
type decodeFunc func(dst []float32, raw []byte)

func decodeU8(dst []float32, raw []byte) {
	for i := range dst {
		dst[i] = float32(int(raw[i])-128) / (1 << 7)
	}
}

func decodeS16(dst []float32, raw []byte) {
	for i := range dst {
		dst[i] = float32(int16(binary.LittleEndian.Uint16(raw[2*i:]))) / (1 << 15)
	}
}

func decodeS24(dst []float32, raw []byte) {
	for i := range dst {
		b := raw[3*i : 3*i+3]
		dst[i] = float32(int32(b[0])|int32(b[1])<<8|int32(int8(b[2]))<<16) / (1 << 23)
	}
}

func decodeS32(dst []float32, raw []byte) {
	for i := range dst {
		dst[i] = float32(int32(binary.LittleEndian.Uint32(raw[4*i:]))) / (1 << 31)
	}
}

func decodeF32(dst []float32, raw []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
}

func decodeF64(dst []float32, raw []byte) {
	for i := range dst {
		dst[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:])))
	}
}

func decodeALaw(dst []float32, raw []byte) {
	for i := range dst {
		dst[i] = aLaw[raw[i]]
	}
}

func decodeMuLaw(dst []float32, raw []byte) {
	for i := range dst {
		dst[i] = muLaw[raw[i]]
	}
}

// ITU-T G.711: sign, three bits of segment, four bits of step, stored inverted; scaled here to 16 bits of full scale 1.
var aLaw, muLaw = func() (a, mu [256]float32) {
	for code := range 256 {
		b := code ^ 0x55
		segment, step := b>>4&7, b&15
		level := step<<4 + 8
		if segment > 0 {
			level = (level + 0x100) << (segment - 1)
		}
		if b&0x80 == 0 {
			level = -level
		}
		a[code] = float32(level) / (1 << 15)

		b = ^code & 0xFF
		segment, step = b>>4&7, b&15
		level = (step<<3+0x84)<<segment - 0x84
		if b&0x80 != 0 {
			level = -level
		}
		mu[code] = float32(level) / (1 << 15)
	}
	return a, mu
}()

// sanitise makes every float sample a number within [-1,1], in place, and counts what it changed.
func sanitise(pcm []float32) (notNumbers, clipped int64) {
	for i, x := range pcm {
		switch {
		case x >= -1 && x <= 1:
		case math.IsNaN(float64(x)) || math.IsInf(float64(x), 0):
			pcm[i] = 0
			notNumbers++
		default:
			pcm[i] = max(-1, min(1, x))
			clipped++
		}
	}
	return notNumbers, clipped
}
