// What tiles of four weight rows have in common.

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

// Bias, activation, residual and store for rows m.. of a tile.
TARGET static void NAME(finish)(const struct cpu_linear *a, int32_t tile, int32_t m, int rows, float sum[CPU_TILE][BLOCK_ROWS],
	struct cpu_top *top)
{
	const int32_t step = a->act == CPU_SWIGLU ? CPU_TILE / 2 : CPU_TILE, n = tile * step;
	const int32_t count = a->outputs - n < step ? a->outputs - n : step;
	for (int r = 0; r < count; r++) {
		for (int i = 0; i < rows; i++) {
			float v = sum[r][i] + (a->bias ? a->bias[n + r] : 0);
			if (a->act == CPU_GELU) {
				v = 0.5f * v * erfcf(-0x1.6a09e6p-1f * v);
			} else if (a->act == CPU_SWIGLU) {
				const float up = sum[step + r][i] + (a->bias ? a->bias[a->outputs + n + r] : 0);
				v = v / (1 + expf(-v)) * up;
			}
			const int64_t at = (int64_t)(m + i) * a->outputs + n + r;
			v += a->residual ? a->residual[at] : 0;
			if (top)
				cpu_top_add(&top[m + i], v, n + r);
			else
				a->y[at] = v;
		}
	}
}
