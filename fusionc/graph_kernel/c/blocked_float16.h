/* Converts rows of float16 to float and back. Rounds to the nearest number, ties to even. Subnormal
 * numbers of float16 are kept, whatever the session's settings are. The instructions are in
 * assembly, because they have different names in different compilers. */

#if GB_V > 4 && defined(__x86_64__)
typedef uint16_t GB(float16s) __attribute__((vector_size(2 * GB_V), aligned(2)));

GK_INLINE GB(vec) GB(from_float16)(const uint16_t *p) {
  GB(vec) x;
  __asm__("vcvtph2ps %1, %0" : "=v"(x) : "m"(*(const GB(float16s) *)(const void *)p));
  return x;
}

GK_INLINE void GB(to_float16)(GB(vec) x, uint16_t *p) {
  __asm__("vcvtps2ph $0, %1, %0" : "=m"(*(GB(float16s) *)(void *)p) : "v"(x));
}
#else
GK_INLINE GB(vec) GB(from_float16)(const uint16_t *p) {
  GB(vec) x;
  for (int v = 0; v < GB_V; ++v) x[v] = gk_from_half(p[v]);
  return x;
}

GK_INLINE void GB(to_float16)(GB(vec) x, uint16_t *p) {
  for (int v = 0; v < GB_V; ++v) p[v] = gk_to_half(x[v]);
}
#endif

GK_INLINE void GB(widen_float16)(const uint16_t *from, float *to, ptrdiff_t n) {
  for (; n >= GB_V; n -= GB_V, from += GB_V, to += GB_V)
    *(GB(loose) *)to = (GB(loose))GB(from_float16)(from);
  for (ptrdiff_t k = 0; k < n; ++k) to[k] = gk_from_half(from[k]);
}

GK_INLINE void GB(round_to_float16)(const float *from, uint16_t *to, ptrdiff_t n) {
  for (; n >= GB_V; n -= GB_V, from += GB_V, to += GB_V)
    GB(to_float16)(GB(load_loose)(from), to);
  for (ptrdiff_t k = 0; k < n; ++k) to[k] = gk_to_half(from[k]);
}
