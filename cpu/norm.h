// The factor of a row's RMSNorm, (mean(x²) + eps)^-½. Squares are summed in float lanes from left to right.
fn float NAME(norm_factor)(const float *x, int32_t d, float eps)
{
	const int32_t whole = d / LANES * LANES;
	vf acc = NAME(v_zero)();
	for (int32_t i = 0; i < whole; i += LANES) {
		const vf v = NAME(v_load)(x + i);
		acc = NAME(v_fma)(v, v, acc);
	}
	float sum = NAME(v_sum)(acc);
	for (int32_t i = whole; i < d; i++)
		sum += x[i] * x[i];
	return 1 / sqrtf(sum / (float)d + eps);
}
