/* Activations of many instructions. */
#if GB_V > 4 /* shorter vectors have no instruction that looks up a table */
/* x / (1 + exp(-a x)). Here, exp(-a x) is 2^(n / GB_V) exp(r). The last bits of n select a
 * fractional power of two from a table, the other bits of n are the exponent, and r is so small
 * that three products suffice for exp(r). Powers from 2^128 on are infinite. */
static void GB(swish)(float *p, ptrdiff_t n, float a) {
  static const float powers[] = {
#if GB_V == 8
      1.0f,        1.09050775f, 1.18920708f, 1.29683959f,
      1.41421354f, 1.54221082f, 1.68179286f, 1.8340081f,
#else
      1.0f,        1.04427373f, 1.09050775f, 1.13878858f, 1.18920708f, 1.24185777f,
      1.29683959f, 1.35425556f, 1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f,
      1.68179286f, 1.75625217f, 1.8340081f,  1.91520655f,
#endif
  };
  enum { BITS = GB_V == 8 ? 3 : 4 };
  const GB(vec) one = GB(all)(1.0f), shift = GB(all)(GK_TO_INTEGER / GB_V),
                table = GB(load_loose)(powers);
  for (ptrdiff_t i = 0; i < n; i += GB_V) {
    const GB(vec) x = GB(load_loose)(p + i), c = GB(within)(x * -a, -87.0f, 88.7228394f);
    const GB(vec) shifted = GB_MADD(c, GB(all)(1.44269504f), shift),
                  r = GB_MADD(shifted - shift, GB(all)(-0.693147181f), c);
    const GB(vec) rest =
        GB_MADD(GB_MADD(GB_MADD(GB(all)(0.166681156f), r, GB(all)(0.500064790f)), r, one), r, one);
    const GB(bits) number = (GB(bits))shifted,
                   power = (GB(bits))GB_PERMUTE(table, number) + (number >> BITS << 23);
    *(GB(loose) *)(p + i) = (GB(loose))(x / GB_MADD(rest, (GB(vec))power, one));
  }
}
#endif

#define GB_ACTIVATION(kind, formula)                        \
  case kind:                                                \
    _Pragma("omp simd") for (ptrdiff_t i = 0; i < n; ++i) { \
      float x = p[i];                                       \
      p[i] = (formula);                                     \
    }                                                       \
    break;

void GB(activate)(float *p, ptrdiff_t n, const gb_step *s) {
  const gk_machine m = gk_machine_with(GB_FUSED);
  const float a = s->alpha, b = s->beta;
  switch (s->activation) {
    GB_ACTIVATION(GB_RELU, x < 0.0f ? 0.0f : x)
    GB_ACTIVATION(GB_CLIP, gk_at_most(gk_at_least(x, a), b))
    GB_ACTIVATION(GB_LEAKY_RELU, x < 0.0f ? a * x : x)
    /* results below 2e-8 become 0, as in onnxruntime */
    GB_ACTIVATION(GB_SIGMOID, x < -18.0f ? 0.0f : gk_sigmoid_f32(x, m))
    GB_ACTIVATION(GB_HARD_SIGMOID, gk_at_most(gk_at_least(a * x + b, 0.0f), 1.0f))
    GB_ACTIVATION(GB_HARD_SWISH, x * gk_at_most(gk_at_least(x * (1.0f / 6.0f) + 0.5f, 0.0f), 1.0f))
#if GB_V > 4
    case GB_SWISH: GB(swish)(p, n, a); break;
#else
    GB_ACTIVATION(GB_SWISH, x * gk_sigmoid_f32(a * x, m))
#endif
      GB_ACTIVATION(GB_GELU, 0.5f * x * (1.0f + gk_erf_f32(x * 0.70710678f, m)))
      GB_ACTIVATION(GB_TANH, gk_tanh_f32(x, m))
      GB_ACTIVATION(GB_TANH_GELU,
                    0.5f * x * (1.0f + gk_tanh_f32(0.79788456f * (x + 0.044715f * x * x * x), m)))
      GB_ACTIVATION(GB_CLIP_SWISH, x * gk_at_most(gk_at_least(a * x + b, 0.0f), 1.0f))
      /* numbers from 65520 on are rounded to infinity */
      GB_ACTIVATION(GB_HALF_RANGE, x >= 65520.0f || x <= -65520.0f ? x * INFINITY : x)
  }
}
#undef GB_ACTIVATION
