package interp

import (
	"math"

	"voxtral/internal/device"
	"voxtral/sdpa"
)

func (x *exec) embedAdd(o *device.EmbedAdd, s *device.Step) {
	rows := &s.Rows[o.Rows.Index]
	for r, slot := range rows.Slot {
		if slot < 0 {
			continue
		}
		y, table := x.row(o.Y, r), o.Table.(*weight).rows[rows.Token[r]]
		at := sdpa.RingRow(int(rows.Pos[r]), o.Audio.Cap) * o.Audio.Width
		audio := x.slot(o.Audio, slot)[at:]
		for i := range y {
			y[i] = table[i] + audio[i]
		}
	}
}

func (x *exec) rmsNorm(o *device.RMSNorm, s *device.Step) {
	gain := x.floats(o.Gain)
	for r := range o.X.Rows {
		in, y := x.row(o.X, r), x.row(o.Y, r)
		scale := 1 / math.Sqrt(dot(in, in)/float64(len(in))+float64(o.Eps))
		var ada []float32
		if !o.Ada.IsZero() {
			slot := s.Rows[o.Rows.Index].Slot[r]
			if slot < 0 {
				continue
			}
			ada = x.row(o.Ada, int(slot))
		}
		for i, v := range in {
			n := float64(v) * scale * float64(gain[i])
			if ada != nil {
				n *= 1 + float64(ada[i])
			}
			y[i] = float32(n)
		}
	}
}

func (x *exec) linear(o *device.Linear) {
	w := o.W.(*weight)
	y := make([]float32, o.Y.Cols)
	for r := range o.X.Rows {
		in := x.row(o.X, r)
		full := func(n int) float64 {
			v := dot(in, w.rows[n])
			if !o.Bias.IsZero() {
				v += float64(x.floats(o.Bias)[n])
			}
			return v
		}
		for n := range y {
			v := full(n)
			if o.Act == device.SwiGLU {
				v = silu(v) * full(n+len(y))
			} else {
				v = activate(o.Act, v)
			}
			if !o.Residual.IsZero() {
				v += float64(x.row(o.Residual, r)[n])
			}
			y[n] = float32(v)
		}
		copy(x.row(o.Y, r), y)
	}
}

func (x *exec) ropeAppend(o *device.RopeAppend, s *device.Step) {
	rows := &s.Rows[o.Rows.Index]
	hd, half := o.Spec.HeadDim, o.Spec.HeadDim/2
	for r, slot := range rows.Slot {
		if slot < 0 {
			continue
		}
		row := x.row(o.QKV, r)
		q, k, v := row[:o.Spec.QDim()], row[o.Spec.QDim():o.Spec.QDim()+o.Spec.KVDim()], row[o.Spec.QDim()+o.Spec.KVDim():]
		cos, sin := rows.Cos[r*half:(r+1)*half], rows.Sin[r*half:(r+1)*half]
		rotate(q, q, cos, sin, hd)
		rotate(k, k, cos, sin, hd)
		x.store(o.K, slot, rows.Pos[r], k)
		x.store(o.V, slot, rows.Pos[r], v)
	}
}

// rotate turns every adjacent pair of every head; dst may be src.
func rotate(dst, src, cos, sin []float32, headDim int) {
	for h := 0; h < len(src); h += headDim {
		for i := range cos {
			a, b := float64(src[h+2*i]), float64(src[h+2*i+1])
			c, s := float64(cos[i]), float64(sin[i])
			dst[h+2*i] = float32(a*c - b*s)
			dst[h+2*i+1] = float32(a*s + b*c)
		}
	}
}

func (x *exec) attention(o *device.Attention, s *device.Step) {
	rows := &s.Rows[o.Rows.Index]
	for r, slot := range rows.Slot {
		if slot < 0 {
			continue
		}
		sdpa.Attend(o.Spec, x.row(o.Y, r), x.row(o.QKV, r), x.history(o.K, slot), x.history(o.V, slot), o.K.Cap, int(rows.Pos[r]))
	}
}

func (x *exec) convWindow(o *device.ConvWindow, s *device.Step) {
	rows := &s.Rows[o.Rows.Index]
	keep, c := 3-o.Stride, o.X.Cols
	for start := 0; start < o.Rows.Rows; {
		slot, end := rows.Slot[start], start+1
		for end < o.Rows.Rows && rows.Slot[end] == slot {
			end++
		}
		if slot >= 0 {
			tail := x.floats(o.Tail.RowsFrom(int(slot)*keep, keep))
			if rows.Pos[start] == 0 {
				clear(tail)
			}
			// history is the tail followed by this slot's rows.
			history := append(append([]float32{}, tail...), x.floats(o.X.RowsFrom(start, end-start))...)
			for t := range (end - start) / o.Stride {
				y := x.row(o.Y, start/o.Stride+t)
				for j := range 3 {
					for ch := range c {
						y[3*ch+j] = history[(t*o.Stride+j)*c+ch]
					}
				}
			}
			copy(tail, history[len(history)-len(tail):])
		}
		start = end
	}
}

func (x *exec) ringWrite(o *device.RingWrite, s *device.Step) {
	rows := &s.Rows[o.Rows.Index]
	for r, slot := range rows.Slot {
		if slot >= 0 {
			x.store(o.To, slot, rows.Pos[r], x.row(o.X, r))
		}
	}
}

func (x *exec) argmax(o *device.Argmax) {
	for r := range o.X.Rows {
		id, best, next := -1, math.Inf(-1), math.Inf(-1)
		for i, v32 := range x.row(o.X, r) {
			v := float64(v32)
			if math.IsNaN(v) {
				id, best, next = -1, v, v
				break
			}
			if v > best || id < 0 {
				id, best, next = i, v, best
			} else if v > next {
				next = v
			}
		}
		x.putInt(o.IDs, r, int32(id))
		top := x.row(o.Top, r)
		top[0], top[1] = float32(best), float32(next)
	}
}
