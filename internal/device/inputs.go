package device

// Inputs lists the tensors that an op reads, so that a device can tell when one may be fused away.
func Inputs(op Op) []Tensor {
	switch o := op.(type) {
	case *RMSNorm:
		return []Tensor{o.X, o.Gain, o.Ada}
	case *Linear:
		return []Tensor{o.X, o.Bias, o.Residual}
	case *RopeAppend:
		return []Tensor{o.QKV}
	case *Attention:
		return []Tensor{o.QKV}
	case *ConvWindow:
		return []Tensor{o.X, o.Tail}
	case *RingWrite:
		return []Tensor{o.X}
	case *Argmax:
		return []Tensor{o.X}
	}
	return nil
}
