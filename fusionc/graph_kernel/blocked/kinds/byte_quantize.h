/* Quantization of float32 images to bytes, and dequantization. A unit (the smallest part of the
 * work) is a row, or some pixels, of a block of the result. */
#ifdef GB_V
/* A number in quantization steps: x / scale, rounded like a division. Results that are far outside
 * the range of bytes are limited to numbers that still saturate. NaN becomes the smallest byte, as
 * in onnxruntime. */
GK_INLINE GB(vec) GB(in_steps)(const float *p, float scale, int zero) {
  const float least = (float)(-1 - zero), most = (float)(256 - zero);
#if GB_FUSED
  /* For these scales, all that follows is exact. Only scales that are known at run time may be
   * others. */
  if (scale >= 0x1p-126f && scale <= 0x1p100f) {
    const GB(vec) x = GB_MIN(GB_MAX(GB(load)(p), GB(all)(least * scale)), GB(all)(most * scale));
    const GB(vec) inverse = GB(all)(1.0f / scale), about = x * inverse,
                  rest = GB_MADD(-about, GB(all)(scale), x);
    return GB_MADD(rest, inverse, about);
  }
#endif
  return GB_MIN(GB_MAX(GB(load)(p) / scale, GB(all)(least)), GB(all)(most));
}

#if GB_V == 16 && GB_HAS_INTRINSICS
/* Quantizes a pixel of 64 channels. `plane` is the distance between its vectors. */
GK_INLINE void GB(quantize_pixel)(const float *x, ptrdiff_t plane, ptrdiff_t parts, float scale,
                                  int zero, uint8_t *y) {
  __m512i v[4];
  _Pragma("GCC unroll 4") for (int part = 0; part < 4; ++part) v[part] =
      part < parts ? _mm512_cvtps_epi32((__m512)GB(in_steps)(x + part * plane, scale, zero))
                   : _mm512_setzero_si512();
  const __m512i z = _mm512_set1_epi16((short)zero),
                order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i low = _mm512_add_epi16(_mm512_packs_epi32(v[0], v[1]), z),
                high = _mm512_add_epi16(_mm512_packs_epi32(v[2], v[3]), z);
  _mm512_storeu_si512(y, _mm512_permutexvar_epi32(order, _mm512_packus_epi16(low, high)));
}
#else
GK_INLINE void GB(quantize_pixel)(const float *x, ptrdiff_t plane, ptrdiff_t parts, float scale,
                                  int zero, uint8_t *y) {
  const float least = (float)-zero, most = (float)(255 - zero);
  for (ptrdiff_t part = 0; part < parts; ++part, x += plane, y += GB_V) {
    const GB(vec) steps = GB(within)(GB(in_steps)(x, scale, zero), least, most) + 12582912.0f;
    const GB(bits) made = (GB(bits))steps - 0x4B400000 + zero;
    for (int v = 0; v < GB_V; ++v) y[v] = (uint8_t)made[v];
  }
}
#endif

void GB(byte_dequantize)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_step *s = c->step;
  (void)scratch;
  for (GB(place) at = GB(place_of)(c, unit, c->out.blocks); unit < end;
       ++unit, GB(advance)(c, &at, c->out.blocks)) {
    GB(place) from = at;
    from.block = at.block * GB_V / GB_BLOCK;
    const uint8_t *x = (const uint8_t *)GB(at)(&c->in, &from) + at.block * GB_V % GB_BLOCK;
    float *y = GB(at)(&c->out, &at);
    for (ptrdiff_t k = 0; k < at.count; ++k)
      for (int v = 0; v < GB_V; ++v)
        y[k * GB_V + v] = (float)(x[k * GB_BLOCK + v] - s->zero_in) * s->scale;
    GB(activate)(y, at.count * GB_V, s);
  }
}

void GB(byte_round)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_grid grid = gb_grid_of(c, 1.0f, 0);
  const float least = (float)-grid.zero, most = (float)(255 - grid.zero);
  (void)scratch;
  for (GB(place) at = GB(place_of)(c, unit, c->out.blocks); unit < end;
       ++unit, GB(advance)(c, &at, c->out.blocks)) {
    const float *x = GB(at)(&c->in, &at);
    float *y = GB(at)(&c->out, &at);
    for (ptrdiff_t k = 0; k < at.count * GB_V; k += GB_V) {
      const GB(vec) exact = GB(in_steps)(x + k, grid.scale, grid.zero);
      const GB(vec) steps = GB(within)(exact, least, most) + 12582912.0f - 12582912.0f;
      *(GB(vec) *)(y + k) = steps * grid.scale;
    }
    GB(activate)(y, at.count * GB_V, c->step);
  }
}

void GB(byte_quantize)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_grid grid = gb_grid_of(c, c->step->scale, c->step->zero);
  (void)scratch;
  for (GB(place) at = GB(place_of)(c, unit, c->out.blocks); unit < end;
       ++unit, GB(advance)(c, &at, c->out.blocks)) {
    const ptrdiff_t parts = c->in.blocks - at.block * (GB_BLOCK / GB_V);
    GB(place) from = at;
    from.block *= GB_BLOCK / GB_V;
    const float *x = GB(at)(&c->in, &from);
    uint8_t *y = (uint8_t *)GB(at)(&c->out, &at);
    for (ptrdiff_t k = 0; k < at.count; ++k)
      GB(quantize_pixel)(x + k * GB_V, c->in.plane,
                         parts < GB_BLOCK / GB_V ? parts : GB_BLOCK / GB_V, grid.scale, grid.zero,
                         y + k * GB_BLOCK);
  }
}
#endif
