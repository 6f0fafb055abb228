// The weight rows of a tile; past the last output, the last row again.
fn void NAME(tile_weights)(const struct cpu_linear *a, int32_t tile, struct cpu_row w[CPU_TILE])
{
	const int32_t step = a->act == CPU_SWIGLU ? CPU_TILE / 2 : CPU_TILE;
	for (int r = 0; r < CPU_TILE; r++) {
		int32_t n = tile * step + r % step;
		n = n < a->outputs ? n : a->outputs - 1;
		w[r] = cpu_weight_row(a->w, r < step ? n : a->outputs + n);
	}
}
