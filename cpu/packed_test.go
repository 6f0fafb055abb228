package cpu

import (
	"voxtral/internal/device"
)

// rounds says whether the device rounds activations that meet a weight of these parts.
func (d *Device) rounds(parts []device.Part) bool {
	if d.kernels.packed.linear == nil {
		return false
	}
	for _, p := range parts {
		if !p.Format.Grouped() || p.Format != parts[0].Format || p.Group != parts[0].Group {
			return false
		}
	}
	return true
}
