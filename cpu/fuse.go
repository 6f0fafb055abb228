package cpu

import "voxtral/internal/device"

// fuse lays out the commands of a run that nobody watches. A Linear over packed weights takes over the RMSNorm before it,
// whose rows it reads anyway to prepare them, and any Linear the Argmax behind it, so that neither the normed rows nor the
// logits are ever stored: where nobody else reads them. The bits are those of the single ops.
func (c *compiler) fuse() {
	plain := c.list
	c.list = nil
	for i := 0; i < len(c.prog.Ops); i++ {
		if f, ops := c.match(i); ops > 1 {
			c.linear(f)
			i += ops - 1
			continue
		}
		c.list = append(c.list, plain[c.ops[i].from:c.ops[i].to]...)
	}
	c.fast = span{len(plain), len(plain) + len(c.list)}
	c.list = append(plain, c.list...)
}

// match is what can be made of the ops from i on, and of how many.
func (c *compiler) match(i int) (f fused, ops int) {
	at := i
	norm, isNorm := c.prog.Ops[i].(*device.RMSNorm)
	if isNorm {
		at++
	}
	if at == len(c.prog.Ops) {
		return f, 1
	}
	linear, ok := c.prog.Ops[at].(*device.Linear)
	if !ok {
		return f, 1
	}
	f.Linear = linear
	if isNorm {
		w, ok := linear.W.(*weight)
		if !ok || c.packed(w) == nil || linear.X != norm.Y || overlap(norm.Y, linear.Residual) || !c.unread(norm.Y, at) {
			return f, 1
		}
		f.norm = norm
	}
	at++
	if at < len(c.prog.Ops) {
		argmax, ok := c.prog.Ops[at].(*device.Argmax)
		if ok && argmax.X == linear.Y && linear.Act != device.SwiGLU && !overlap(linear.Y, linear.Residual) && c.unread(linear.Y, at) {
			f.argmax = argmax
			at++
		}
	}
	return f, at - i
}

// unread says that nothing after op i reads t before it is written anew, nor the host.
func (c *compiler) unread(t device.Tensor, i int) bool {
	if t.Mem.Buf != nil {
		return false
	}
	for _, op := range c.prog.Ops[i+1:] {
		for _, in := range inputs(op) {
			if overlap(in, t) {
				return false
			}
		}
		if op.Out() == t {
			return true
		}
	}
	return true
}

// inputs are the tensors that an op reads.
func inputs(op device.Op) []device.Tensor {
	switch o := op.(type) {
	case *device.RMSNorm:
		return []device.Tensor{o.X, o.Gain, o.Ada}
	case *device.Linear:
		return []device.Tensor{o.X, o.Bias, o.Residual}
	case *device.RopeAppend:
		return []device.Tensor{o.QKV}
	case *device.Attention:
		return []device.Tensor{o.QKV}
	case *device.ConvWindow:
		return []device.Tensor{o.X, o.Tail}
	case *device.RingWrite:
		return []device.Tensor{o.X}
	case *device.Argmax:
		return []device.Tensor{o.X}
	}
	return nil
}

func overlap(a, b device.Tensor) bool {
	return a.Mem != nil && a.Mem == b.Mem && a.Offset < b.Offset+b.Rows*b.Cols && b.Offset < a.Offset+a.Rows*a.Cols
}
