package hip

import "voxtral/internal/device"

const (
	mvParts    = 8        // waves that share a tile in matvec and head, one block's
	legColumns = 5120     // that digits are summed over before they are joined
	ldsPiece   = 52 << 10 // bytes of activations beyond which they pass through in pieces
	ldsDigits  = 104 << 10
)

// digits says whether a product keeps activations as three signed bytes, as x.h has it.
func digits(f device.Format, cuda bool) bool { return cuda && f.Grouped() }

// stagedBytes is what a slab of an activation row takes in LDS.
func stagedBytes(f device.Format, cuda bool) int {
	columns := 32 * slabGroups(f)
	if digits(f, cuda) {
		return 3 * (columns + 16)
	}
	return 2 * (2*columns + padded(cuda))
}

// staged is how many of a product's slabs are in LDS at a time, for a kernel of so many rows.
func staged(f device.Format, rows, slabs int, cuda bool) int {
	bytes := rows * stagedBytes(f, cuda)
	if digits(f, cuda) {
		if rows <= 4 || slabs*bytes <= ldsDigits { // X_WHOLE
			return slabs
		}
		return min(slabs, legColumns/(32*slabGroups(f)))
	}
	if slabs*bytes <= ldsPiece {
		return slabs
	}
	return max(mvParts, ldsPiece/bytes/mvParts*mvParts)
}
