// Linear over packed weights by tiles of four weight rows, given NAME(dots) over BLOCK_ROWS prepared activation rows of so many
// NAME(units) of UNIT bytes each, and a FINISH. Included once per instruction set.
// Goes over tiles from..to with all rows, in panels that stay in cache while row after row passes.
fn void NAME(panels)(int format, int shift, const struct cpu_linear *a, int32_t from, int32_t to, struct cpu_top *top)
{
	enum { PANEL = 128 << 10 };
	const struct cpu_part *part = a->w->parts;
	const int32_t cols = a->w->cols, fit = (int32_t)(PANEL / (CPU_TILE * part->row_bytes)), tiles = fit > 1 ? fit : 1;
	const int step = a->act == CPU_SWIGLU ? CPU_TILE / 2 : CPU_TILE, together = CPU_SIDE / step;
	const int64_t apart = (int64_t)NAME(units)(cols) * UNIT, ahead = part->row_bytes * step;
	for (int32_t panel = from; panel < to; panel += tiles) {
		const int32_t end = to - panel < tiles ? to : panel + tiles;
		for (int32_t m = 0; m < a->m; m += BLOCK_ROWS) {
			const uint8_t *x = (const uint8_t *)a->prepared + m * apart;
			const int rows = a->m - m < BLOCK_ROWS ? a->m - m : BLOCK_ROWS;
			for (int32_t tile = panel; tile < end; tile += together) {
				const int n = end - tile < together ? end - tile : together, left = a->outputs - tile * step;
				float v[BLOCK_ROWS][CPU_SIDE] = {0}, up[BLOCK_ROWS][CPU_SIDE] = {0};
				for (int t = 0; t < n; t++) {
					struct cpu_row w[CPU_TILE];
					float out[BLOCK_ROWS][CPU_TILE];
					NAME(tile_weights)(a, tile + t, w);
					switch (rows) {
#define ROWS(n) \
	case n: \
		NAME(dots)(format, shift, n, out, w, x, apart, cols, ahead); \
		break;
						ROWS(1)
						ROWS(2)
						ROWS(3)
						ROWS(4)
#if BLOCK_ROWS > 4
						ROWS(5)
						ROWS(6)
						ROWS(7)
						ROWS(8)
#endif
#undef ROWS
					}
					for (int i = 0; i < rows; i++) {
						memcpy(v[i] + t * step, out[i], (size_t)step * sizeof **v);
						memcpy(up[i] + t * step, out[i] + CPU_TILE - step, (size_t)step * sizeof **up);
					}
				}
				FINISH(a, tile * step, left < n * step ? left : n * step, m, rows, v, up, top);
			}
		}
	}
}

#define PANELS(format, shift) \
	TARGET static void NAME(panels_##format##_##shift)(const struct cpu_linear *a, int32_t from, int32_t to, struct cpu_top *top) \
	{ \
		NAME(panels)(format, shift, a, from, to, top); \
	}
PANELS(CPU_INT8, 5)
PANELS(CPU_INT8, 6)
PANELS(CPU_INT8, 7)
PANELS(CPU_INT4, 5)
PANELS(CPU_INT4, 6)
PANELS(CPU_INT4, 7)
#undef PANELS

TARGET void NAME(cpu_integer)(const void *args, int32_t chunk, float *scratch)
{
	static void (*const panels[2][3])(const struct cpu_linear *, int32_t, int32_t, struct cpu_top *) = {
		{NAME(panels_CPU_INT8_5), NAME(panels_CPU_INT8_6), NAME(panels_CPU_INT8_7)},
		{NAME(panels_CPU_INT4_5), NAME(panels_CPU_INT4_6), NAME(panels_CPU_INT4_7)},
	};
	(void)scratch;
	const struct cpu_linear *a = args;
	CPU_CHUNK(a, chunk, from, to);
	const struct cpu_part *p = a->w->parts;
	panels[p->format == CPU_INT4][p->group_shift - 5](a, from, to, cpu_tops(a, chunk, from * CPU_TILE));
}
