/* Depthwise convolutions of 8-bit integers. */
#ifdef GB_V
#if GB_V == 16 && GB_HAS_INTRINSICS
/* Four bytes of each channel, one from each of four rows, in the order in which the instruction for
 * products of bytes reads them. The channels are permuted; packing the results to bytes restores
 * their order. */
typedef struct {
  __m512i v[4];
} gb_quads;

GK_INLINE gb_quads gb_quads_of(__m512i a, __m512i b, __m512i c, __m512i d) {
  const __m512i ab = _mm512_unpacklo_epi8(a, b), cd = _mm512_unpacklo_epi8(c, d),
                ef = _mm512_unpackhi_epi8(a, b), gh = _mm512_unpackhi_epi8(c, d);
  return (gb_quads){{_mm512_unpacklo_epi16(ab, cd), _mm512_unpackhi_epi16(ab, cd),
                     _mm512_unpacklo_epi16(ef, gh), _mm512_unpackhi_epi16(ef, gh)}};
}

#define GB_DEPTHWISE_TARGET                                                                    \
  __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx512vnni,avx2,fma,prefer-vector-" \
                        "width=512")))

/* Computes R consecutive pixels of a block of channels. */
GB_DEPTHWISE_TARGET GK_INLINE void gb_depthwise_pixels(const gb_call *c, const uint8_t *x,
                                                       const int8_t *w, const __m512i *start,
                                                       const __m512 *factors,
                                                       const __m512 *addends, uint8_t *y,
                                                       const int R, const int stride,
                                                       const int columns) {
  const gb_step *s = c->step;
  const ptrdiff_t row = 4 * s->dilation[0] * c->in.row, pixel = 4 * c->in.pixel;
  __m512i sums[R][4];
  _Pragma("GCC unroll 8") for (int r = 0; r < R; ++r)
    _Pragma("GCC unroll 4") for (int g = 0; g < 4; ++g) sums[r][g] = start[g];
  const ptrdiff_t rest = s->zero_weights ? (s->kernel[0] + 3) / 4 * columns * 256 : 0;
  for (int i = 0; i < s->kernel[0]; i += 4, w += columns * 256) {
    const int rows = s->kernel[0] - i < 4 ? s->kernel[0] - i : 4;
    const uint8_t *from = x + i * row;
    _Pragma("GCC unroll 16") for (int j = 0; j < (R - 1) * stride + columns; ++j) {
      const uint8_t *p = from + j * pixel;
      const __m512i none = _mm512_setzero_si512();
      const gb_quads q = gb_quads_of(
          _mm512_loadu_si512(p), rows > 1 ? _mm512_loadu_si512(p + row) : none,
          rows > 2 ? _mm512_loadu_si512(p + 2 * row) : none,
          rows > 3 ? _mm512_loadu_si512(p + 3 * row) : none);
      _Pragma("GCC unroll 8") for (int r = 0; r < R; ++r) {
        const int k = j - r * stride;
        if (k >= 0 && k < columns)
          _Pragma("GCC unroll 4") for (int g = 0; g < 4; ++g) sums[r][g] = _mm512_dpbusd_epi32(
              sums[r][g], q.v[g], _mm512_loadu_si512(w + k * 256 + g * 64));
        if (rest && k >= 0 && k < columns)
          _Pragma("GCC unroll 4") for (int g = 0; g < 4; ++g) sums[r][g] = _mm512_dpbusd_epi32(
              sums[r][g], q.v[g], _mm512_loadu_si512(w + rest + k * 256 + g * 64));
      }
    }
  }
  const __m512i zero = _mm512_set1_epi16((short)s->zero);
  _Pragma("GCC unroll 8") for (int r = 0; r < R; ++r) {
    __m512i v[4];
    _Pragma("GCC unroll 4") for (int g = 0; g < 4; ++g) v[g] =
        GB_TO_INTEGERS(
            _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sums[r][g]), factors[g]), addends[g]));
    _mm512_storeu_si512(
        y + r * GB_BLOCK,
        _mm512_min_epu8(
            _mm512_max_epu8(
                _mm512_packus_epi16(_mm512_adds_epi16(_mm512_packs_epi32(v[0], v[1]), zero),
                                    _mm512_adds_epi16(_mm512_packs_epi32(v[2], v[3]), zero)),
                _mm512_set1_epi8((char)s->least)),
            _mm512_set1_epi8((char)s->most)));
  }
}

#define GB_DEPTHWISE_ROW(name, stride, columns)                                                   \
  GB_DEPTHWISE_TARGET static void name(const gb_call *c, const uint8_t *x, const int8_t *w,       \
                                       const __m512i *start, const __m512 *factors,               \
                                       const __m512 *addends, uint8_t *y, ptrdiff_t count) {      \
    ptrdiff_t k = 0;                                                                              \
    for (; k + 4 <= count; k += 4, x += 16 * (stride) * c->in.pixel, y += 4 * GB_BLOCK)           \
      gb_depthwise_pixels(c, x, w, start, factors, addends, y, 4, stride, columns);               \
    for (; k < count; ++k, x += 4 * (stride) * c->in.pixel, y += GB_BLOCK)                        \
      gb_depthwise_pixels(c, x, w, start, factors, addends, y, 1, stride, columns);               \
  }
GB_DEPTHWISE_ROW(gb_depthwise_1_3, 1, 3)
GB_DEPTHWISE_ROW(gb_depthwise_2_3, 2, 3)
GB_DEPTHWISE_ROW(gb_depthwise_1_5, 1, 5)
GB_DEPTHWISE_ROW(gb_depthwise_2_5, 2, 5)

/* Whether the functions for four rows can be used. They cannot if the zero point of the weights is
 * -128: then a weight minus the zero point may be 255, which is not the sum of two signed bytes. */
GK_INLINE int gb_is_by_quads(const gb_step *s) {
  return (gb_instructions() & GB_HAS_VNNI_512) && s->zero_weights > -128 &&
         s->stride[0] == s->stride[1] && s->stride[0] <= 2 &&
         (s->kernel[1] == 3 || s->kernel[1] == 5) && s->dilation[1] == 1;
}

/* The channel of a block that is in lane k of vector g. */
GK_INLINE int gb_channel_of(int g, int k) { return k / 4 * 16 + g * 4 + k % 4; }

GB_DEPTHWISE_TARGET static void gb_byte_depthwise_by_quads(const gb_call *c, ptrdiff_t unit,
                                                           ptrdiff_t end) {
  const gb_step *s = c->step;
  const ptrdiff_t size = (s->kernel[0] + 3) / 4 * s->kernel[1] * 256 * (s->zero_weights ? 2 : 1);
  const int32_t *starts = (const int32_t *)c->weights;
  const int8_t *weights = (const int8_t *)(starts + c->out.blocks * GB_BLOCK);
  ptrdiff_t block = -1;
  __m512i start[4];
  __m512 factors[4], addends[4];
  for (GB(place) at = GB(place_of)(c, unit, c->out.blocks); unit < end;
       ++unit, GB(advance)(c, &at, c->out.blocks)) {
    if (at.block != block) {
      block = at.block;
      for (int g = 0; g < 4; ++g) {
        int32_t numbers[16];
        float of[16], more[16];
        for (int k = 0; k < 16; ++k) {
          const ptrdiff_t channel = block * GB_BLOCK + gb_channel_of(g, k);
          const int is_channel = channel < c->out.channels;
          numbers[k] = starts[channel] + (is_channel ? GB(integer_bias)(c, channel) : 0);
          more[k] = is_channel ? GB(float_bias)(c, channel) : 0.0f;
          of[k] = c->tensor[channel];
        }
        start[g] = _mm512_loadu_si512(numbers);
        factors[g] = _mm512_loadu_ps(of);
        addends[g] = _mm512_loadu_ps(more);
      }
    }
    const uint8_t *x = (const uint8_t *)(c->in.data + at.image * c->in.image +
                                         at.block * c->in.plane +
                                         (at.row * s->stride[0] - s->pads[0]) * c->in.row -
                                         s->pads[1] * c->in.pixel);
    uint8_t *y = (uint8_t *)GB(at)(&c->out, &at);
    const int8_t *w = weights + block * size;
    if (s->stride[0] == 1)
      (s->kernel[1] == 3 ? gb_depthwise_1_3
                         : gb_depthwise_1_5)(c, x, w, start, factors, addends, y, at.count);
    else
      (s->kernel[1] == 3 ? gb_depthwise_2_3
                         : gb_depthwise_2_5)(c, x, w, start, factors, addends, y, at.count);
  }
}
#endif

void GB(byte_depthwise)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_step *s = c->step;
  (void)scratch;
#if GB_V == 16 && GB_HAS_INTRINSICS
  if (gb_is_by_quads(s)) {
    gb_byte_depthwise_by_quads(c, unit, end);
    return;
  }
#endif
  const ptrdiff_t taps = s->kernel[0] * s->kernel[1];
  const int32_t *starts = (const int32_t *)c->weights;
  const int16_t *weights = (const int16_t *)(starts + c->out.blocks * GB_BLOCK);
  for (GB(place) at = GB(place_of)(c, unit, c->out.blocks); unit < end;
       ++unit, GB(advance)(c, &at, c->out.blocks)) {
    uint8_t *y = (uint8_t *)GB(at)(&c->out, &at);
    const float *factors = c->tensor + at.block * GB_BLOCK;
    int32_t start[GB_BLOCK];
    float addends[GB_BLOCK];
    for (int k = 0; k < GB_BLOCK; ++k) {
      const ptrdiff_t channel = at.block * GB_BLOCK + k;
      const int is_channel = channel < c->out.channels;
      start[k] = starts[channel] + (is_channel ? GB(integer_bias)(c, channel) : 0);
      addends[k] = is_channel ? GB(float_bias)(c, channel) : 0.0f;
    }
    for (ptrdiff_t p = 0; p < at.count; ++p, y += GB_BLOCK) {
      int32_t sums[GB_BLOCK];
      memcpy(sums, start, sizeof sums);
      const int16_t *w = weights + at.block * taps * GB_BLOCK;
      const uint8_t *x = (const uint8_t *)(c->in.data + at.image * c->in.image +
                                           at.block * c->in.plane +
                                           (at.row * s->stride[0] - s->pads[0]) * c->in.row +
                                           (p * s->stride[1] - s->pads[1]) * c->in.pixel);
      for (int i = 0; i < s->kernel[0]; ++i)
        for (int j = 0; j < s->kernel[1]; ++j, w += GB_BLOCK) {
          const uint8_t *tap =
              x + 4 * (i * s->dilation[0] * c->in.row + j * s->dilation[1] * c->in.pixel);
          for (int k = 0; k < GB_BLOCK; ++k) sums[k] += tap[k] * w[k];
        }
      for (int half = 0; half < GB_BLOCK; half += 32)
        GB(requantize)(sums + half, factors + half, addends + half, 0, s->zero, s->least, s->most,
                       y + half, 1);
    }
  }
}

void GB(pack_byte_lanes)(const float *f, float *to, const gb_step *s, ptrdiff_t in, ptrdiff_t out) {
  const ptrdiff_t taps = s->kernel[0] * s->kernel[1];
  const uint8_t *w = (const uint8_t *)f;
  int32_t *start = (int32_t *)to;
  int8_t *packed = (int8_t *)(start + (out + GB_BLOCK - 1) / GB_BLOCK * GB_BLOCK);
  (void)in;
  for (ptrdiff_t o = 0; o < out; ++o) {
    int32_t sum = 0;
    for (ptrdiff_t k = 0; k < taps; ++k) {
      const int v = (int8_t)(w[o * taps + k] ^ s->flip) - s->zero_weights;
      sum += v;
#if GB_V == 16 && GB_HAS_INTRINSICS
      if (gb_is_by_quads(s)) {
        const ptrdiff_t i = k / s->kernel[1], j = k % s->kernel[1],
                        half = (s->kernel[0] + 3) / 4 * s->kernel[1] * 256,
                        size = s->zero_weights ? 2 * half : half;
        const ptrdiff_t channel = o % GB_BLOCK, g = channel % 16 / 4,
                        lane = channel / 16 * 4 + channel % 4;
        /* A weight minus the zero point may be too large for a signed byte. Then it is packed as a
         * sum of two bytes. */
        const int most = v < -128 ? -128 : v > 127 ? 127 : v;
        int8_t *at = packed + o / GB_BLOCK * size + (i / 4 * s->kernel[1] + j) * 256 + g * 64 +
                     lane * 4 + i % 4;
        *at = (int8_t)most;
        if (s->zero_weights) at[half] = (int8_t)(v - most);
        continue;
      }
#endif
      ((int16_t *)(void *)packed)[(o / GB_BLOCK * taps + k) * GB_BLOCK + o % GB_BLOCK] =
          (int16_t)v;
    }
    start[o] = -s->zero_in * sum;
  }
}
#else
static ptrdiff_t gb_byte_lanes(const gb_width *width, const gb_step *s, ptrdiff_t in,
                               ptrdiff_t out) {
  (void)width;
  (void)in;
  return gb_rounded(out, 64) * (1 + gb_rounded(s->kernel[0], 4) * s->kernel[1] / 2);
}
#endif
