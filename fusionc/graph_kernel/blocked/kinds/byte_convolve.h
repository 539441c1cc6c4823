/* Convolutions and products of 8-bit integers. Their sums have 32 bits, and are exact.
 *
 * A pixel of a block has 64 channels in 64 bytes, whatever the width of vectors is. Packed weights
 * are signed, in the order [16 output channels][block][row][column][4 input channels][output
 * channel][input channel]; the 64 input channels of a block take 1024 bytes. Before the packed
 * weights of a step are the initial values of its sums, without the bias: the negative product of
 * the image's zero point and the sum of the weights. If the zero point of the image is known only
 * at run time, these values are packed for the zero point 1. */
#ifdef GB_V
#ifndef GB_BYTE_TYPES
#define GB_BYTE_TYPES
enum { GB_BLOCK = 64, GB_OUTS = 16, GB_QUADS = 16, GB_POSITIONS = 32, GB_PANEL = 1024 };

/* What a tile of some positions by 32 output channels reads. Distances are in bytes. Positions are
 * either the pixels of one row of the result, or the pixels of all rows and those in the gaps
 * between rows. */
typedef struct {
  const uint8_t *x; /* at the first position and the first element of the kernel */
  ptrdiff_t x_position, x_block, x_row, x_column;
  const int8_t *w;
  ptrdiff_t w_outs; /* from 16 output channels to the next 16 */
  ptrdiff_t blocks, rows, columns, quads; /* quads: groups of four channels, in the last block */
  const int32_t *start;
  int32_t *sums; /* [position][32] */
} gb_byte_tile;

typedef void gb_byte_sums(const gb_byte_tile *t, ptrdiff_t count, int outs);

/* The positions that belong to a part of a step. */
typedef struct {
  ptrdiff_t image, row, first, count; /* in positions of the row */
} gb_byte_part;
#endif

/* Sums in vectors of this width, for processors without instructions for products of bytes. */
typedef int32_t GB(ints) __attribute__((vector_size(4 * GB_V), aligned(4)));

#if GB_V == 4 && defined(__x86_64__)
typedef short gb_words_4 __attribute__((vector_size(16)));
typedef int gb_sums_4 __attribute__((vector_size(16)));
GK_INLINE GB(ints) GB(products)(GB(ints) x, GB(ints) w) {
  const gb_words_4 even = (gb_words_4)(x & 0xff00ff), odd = (gb_words_4)((x >> 8) & 0xff00ff);
  const gb_words_4 of_even = ((gb_words_4)w << 8) >> 8, of_odd = (gb_words_4)w >> 8;
  return (GB(ints))__builtin_ia32_pmaddwd128(even, of_even) +
         (GB(ints))__builtin_ia32_pmaddwd128(odd, of_odd);
}
#elif GB_V == 8
GK_INLINE GB(ints) GB(products)(GB(ints) x, GB(ints) w) {
  const __m256i low = _mm256_set1_epi16(255), v = (__m256i)x, u = (__m256i)w;
  const __m256i even = _mm256_madd_epi16(_mm256_and_si256(v, low),
                                         _mm256_srai_epi16(_mm256_slli_epi16(u, 8), 8));
  const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(v, 8), _mm256_srai_epi16(u, 8));
  return (GB(ints))_mm256_add_epi32(even, odd);
}
#elif GB_V == 16 && GB_HAS_INTRINSICS
GK_INLINE GB(ints) GB(products)(GB(ints) x, GB(ints) w) {
  const __m512i low = _mm512_set1_epi16(255), v = (__m512i)x, u = (__m512i)w;
  const __m512i even = _mm512_madd_epi16(_mm512_and_si512(v, low),
                                         _mm512_srai_epi16(_mm512_slli_epi16(u, 8), 8));
  const __m512i odd = _mm512_madd_epi16(_mm512_srli_epi16(v, 8), _mm512_srai_epi16(u, 8));
  return (GB(ints))_mm512_add_epi32(even, odd);
}
#else
GK_INLINE GB(ints) GB(products)(GB(ints) x, GB(ints) w) {
  GB(ints) sum = {0};
  for (int k = 0; k < 4; ++k) sum += (x >> 8 * k & 255) * (w << (24 - 8 * k) >> 24);
  return sum;
}
#endif
#define GB_DOT(sum, x, w) ((sum) + GB(products)(x, w))

/* The sums of R positions by N vectors of output channels. DOT multiplies four bytes by four bytes,
 * and adds the products to a sum. */
#define GB_BYTE_SUMS(name, target, R, N, DOT)                                                     \
  target static void GB(name)(const gb_byte_tile *t, ptrdiff_t count, int outs) {                 \
    for (ptrdiff_t p = 0; p < count; p += R)                                                      \
      for (int o = 0; o < outs; o += N * GB_V) {                                                  \
        const uint8_t *x[R];                                                                      \
        for (int r = 0; r < R; ++r)                                                               \
          x[r] = t->x + (p + r < count ? p + r : count - 1) * t->x_position;                      \
        GB(ints) s[R][N];                                                                         \
        for (int r = 0; r < R; ++r)                                                               \
          for (int n = 0; n < N; ++n) s[r][n] = *(const GB(ints) *)(t->start + o + n * GB_V);     \
        const int8_t *w = t->w + o / GB_OUTS * t->w_outs + o % GB_OUTS * 4;                       \
        for (ptrdiff_t b = 0; b < t->blocks; ++b)                                                 \
          for (ptrdiff_t i = 0; i < t->rows; ++i)                                                 \
            for (ptrdiff_t j = 0; j < t->columns; ++j, w += GB_PANEL) {                           \
              const ptrdiff_t at = b * t->x_block + i * t->x_row + j * t->x_column;               \
              const ptrdiff_t quads = b + 1 == t->blocks ? t->quads : GB_QUADS;                   \
              for (ptrdiff_t q = 0; q < quads; ++q) {                                             \
                GB(ints) v[N];                                                                    \
                _Pragma("GCC unroll 4") for (int n = 0; n < N; ++n) v[n] = *(const GB(ints) *)(   \
                    w + q * 64 + n * GB_V / GB_OUTS * t->w_outs + n * GB_V % GB_OUTS * 4);        \
                _Pragma("GCC unroll 16") for (int r = 0; r < R; ++r) {                            \
                  int32_t four;                                                                   \
                  memcpy(&four, x[r] + at + 4 * q, 4);                                            \
                  const GB(ints) u = four - (GB(ints)){0};                                        \
                  _Pragma("GCC unroll 4") for (int n = 0; n < N; ++n) s[r][n] =                   \
                      DOT(s[r][n], u, v[n]);                                                      \
                }                                                                                 \
              }                                                                                   \
            }                                                                                     \
        for (int r = 0; r < R && p + r < count; ++r)                                              \
          for (int n = 0; n < N; ++n)                                                             \
            *(GB(ints) *)(t->sums + (p + r) * 2 * GB_OUTS + o + n * GB_V) = s[r][n];              \
      }                                                                                           \
  }
GB_BYTE_SUMS(plain_bytes, , 4, 2, GB_DOT)

#if GB_V == 8 && GB_HAS_INTRINSICS
#define GB_DOT_VNNI(sum, x, w) \
  ((GB(ints))_mm256_dpbusd_avx_epi32((__m256i)(sum), (__m256i)(x), (__m256i)(w)))
GB_BYTE_SUMS(vnni_bytes, __attribute__((target("avx2,fma,avxvnni"))), 6, 2, GB_DOT_VNNI)
#undef GB_DOT_VNNI
#elif GB_V == 16 && GB_HAS_INTRINSICS
#define GB_DOT_VNNI(sum, x, w) \
  ((GB(ints))_mm512_dpbusd_epi32((__m512i)(sum), (__m512i)(x), (__m512i)(w)))
GB_BYTE_SUMS(vnni_bytes,
             __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx512vnni,avx2,fma,"
                                   "prefer-vector-width=512"))),
             12, 2, GB_DOT_VNNI)
#undef GB_DOT_VNNI

/* The sums of 32 positions by 32 output channels, with AMX. Tiles 0 to 3 contain sums, tiles 4 and
 * 5 positions, and tiles 6 and 7 weights. */
#define GB_TILES_TARGET __attribute__((target("amx-tile,amx-int8,avx512f,avx512vl,avx512bw")))
GB_TILES_TARGET static void GB(amx_bytes)(const gb_byte_tile *t, ptrdiff_t count, int outs) {
  enum { ROWS = 16, APART = 2 * GB_OUTS * 4 };
  const int is_long = count > ROWS, is_wide = outs > GB_OUTS;
  const int8_t *w0 = t->w, *w1 = t->w + t->w_outs;
  const ptrdiff_t further = ROWS * t->x_position;
  _tile_loadd(0, t->start, 0);
  if (is_wide) _tile_loadd(1, t->start + GB_OUTS, 0);
  if (is_long) _tile_loadd(2, t->start, 0);
  if (is_long && is_wide) _tile_loadd(3, t->start + GB_OUTS, 0);
  for (ptrdiff_t b = 0; b < t->blocks; ++b)
    for (ptrdiff_t i = 0; i < t->rows; ++i) {
      const uint8_t *x = t->x + b * t->x_block + i * t->x_row;
      for (ptrdiff_t j = 0; j < t->columns; ++j, x += t->x_column, w0 += GB_PANEL, w1 += GB_PANEL) {
        _tile_loadd(4, x, t->x_position);
        _tile_loadd(6, w0, 64);
        _tile_dpbusd(0, 4, 6);
        if (is_wide) {
          _tile_loadd(7, w1, 64);
          _tile_dpbusd(1, 4, 7);
        }
        if (is_long) {
          _tile_loadd(5, x + further, t->x_position);
          _tile_dpbusd(2, 5, 6);
          if (is_wide) _tile_dpbusd(3, 5, 7);
        }
      }
    }
  _tile_stored(0, t->sums, APART);
  if (is_wide) _tile_stored(1, t->sums + GB_OUTS, APART);
  if (is_long) _tile_stored(2, t->sums + ROWS * 2 * GB_OUTS, APART);
  if (is_long && is_wide) _tile_stored(3, t->sums + ROWS * 2 * GB_OUTS + GB_OUTS, APART);
}
#endif
#undef GB_DOT

/* The initial value of a channel's sum: its bias if biases are integers, and otherwise 0. */
GK_INLINE int32_t GB(integer_bias)(const gb_call *c, ptrdiff_t channel) {
  return c->bias && c->step->scale == 0.0f ? ((const int32_t *)c->bias)[channel] : 0;
}

/* The number that is added to a channel's sum after the sum is scaled, in quantization steps of the
 * result: its bias if biases are float32, and otherwise 0. If the result is bytes, a bias of NaN
 * gives the smallest byte, as in onnxruntime. */
GK_INLINE float GB(float_bias)(const gb_call *c, ptrdiff_t channel) {
  if (!c->bias || c->step->scale == 0.0f) return 0.0f;
  const float bias = c->bias[channel] / c->step->scale;
  return bias == bias || c->step->has_floats ? bias : -__builtin_inff();
}

/* Converts the sums of `count` pixels by 32 channels to bytes: multiplies each sum by the factor of
 * its channel, adds its addend, rounds to the nearest integer (ties to even), adds the zero point,
 * and saturates. `apart` is the distance between the addends of two pixels. */
GK_INLINE void GB(requantize)(const int32_t *sums, const float *factors, const float *addends,
                              ptrdiff_t apart, int zero, int low, int high, uint8_t *y,
                              ptrdiff_t count) {
#if GB_V == 16 && GB_HAS_INTRINSICS
  const __m512 f0 = _mm512_loadu_ps(factors), f1 = _mm512_loadu_ps(factors + 16);
  const __m512i z = _mm512_set1_epi16((short)zero), lows = _mm512_set1_epi8((char)low),
                highs = _mm512_set1_epi8((char)high),
                order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
#define GB_ROUNDED(at, a, f)    \
  GB_TO_INTEGERS(_mm512_add_ps( \
      _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_loadu_si512((const void *)(at))), f), \
      _mm512_loadu_ps(a)))
  for (ptrdiff_t p = 0; p < count; p += 2, sums += 64, y += 2 * GB_BLOCK) {
    const ptrdiff_t next = p + 1 < count;
    const int32_t *other = sums + next * 32;
    const float *a0 = addends + p * apart, *a1 = a0 + next * apart;
    const __m512i a = _mm512_adds_epi16(_mm512_packs_epi32(GB_ROUNDED(sums, a0, f0),
                                                           GB_ROUNDED(sums + 16, a0 + 16, f1)),
                                        z),
                  b = _mm512_adds_epi16(_mm512_packs_epi32(GB_ROUNDED(other, a1, f0),
                                                           GB_ROUNDED(other + 16, a1 + 16, f1)),
                                        z);
    const __m512i bytes = _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(a, b), lows), highs),
                  made = _mm512_permutexvar_epi32(order, bytes);
    /* each lane has four bytes of a0, then of a1, b0 and b1: this moves all bytes of a0 to the
     * front, etc. */
    _mm256_storeu_si256((__m256i *)(void *)y, _mm512_castsi512_si256(made));
    if (p + 1 < count)
      _mm256_storeu_si256((__m256i *)(void *)(y + GB_BLOCK), _mm512_extracti64x4_epi64(made, 1));
  }
#undef GB_ROUNDED
#else
  const float least = (float)(low - zero), most = (float)(high - zero), magic = 12582912.0f;
  for (ptrdiff_t p = 0; p < count; ++p, sums += 32, addends += apart, y += GB_BLOCK) {
    uint8_t made[32];
    for (int k = 0; k < 32; ++k) {
      float v = (float)sums[k] * factors[k] + addends[k];
      v = v < least ? least : v;
      v = (v > most ? most : v) + magic;
      int32_t bits;
      memcpy(&bits, &v, 4);
      made[k] = (uint8_t)(bits - 0x4B400000 + zero);
    }
    memcpy(y, made, sizeof made);
  }
#endif
}

/* Adds 32 bytes with one scale to 32 bytes with another scale, as onnxruntime does. y may be b. */
GK_INLINE void GB(add_bytes)(const uint8_t *a, const uint8_t *b, uint8_t *y, float first,
                             float second, float addend, const gb_step *s) {
#if GB_V == 16 && GB_HAS_INTRINSICS
  const __m128i lows = _mm_set1_epi8((char)s->least), highs = _mm_set1_epi8((char)s->most);
  const __m512 f = _mm512_set1_ps(first), g = _mm512_set1_ps(second), h = _mm512_set1_ps(addend);
  for (int k = 0; k < 32; k += 16) {
#define GB_FLOATS(p) \
  _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p))))
    const __m512i sum = GB_TO_INTEGERS(
        _mm512_fmadd_ps(f, GB_FLOATS(a + k), _mm512_fmadd_ps(g, GB_FLOATS(b + k), h)));
#undef GB_FLOATS
    const __m128i made = _mm512_cvtusepi32_epi8(_mm512_max_epi32(sum, _mm512_setzero_si512()));
    _mm_storeu_si128((__m128i *)(void *)(y + k), _mm_min_epu8(_mm_max_epu8(made, lows), highs));
  }
#else
  const float least = (float)s->least, most = (float)s->most;
  uint8_t made[32];
  for (int k = 0; k < 32; ++k) {
#if GB_FUSED
    float v = __builtin_fmaf(first, (float)a[k], __builtin_fmaf(second, (float)b[k], addend));
#else
    float v = first * (float)a[k] + (second * (float)b[k] + addend);
#endif
    v = v < least ? least : v;
    v = (v > most ? most : v) + 12582912.0f;
    int32_t bits;
    memcpy(&bits, &v, 4);
    made[k] = (uint8_t)(bits - 0x4B400000);
  }
  memcpy(y, made, sizeof made);
#endif
}

GK_INLINE ptrdiff_t GB(byte_pitch)(const gb_call *c) {
  return c->is_flat ? c->in.row / c->in.pixel : c->out.width;
}

/* Corrects sums for the zero point of the weights: subtracts the product of the zero point and the
 * sum of the window's bytes. */
GK_INLINE void GB(take_windows)(int32_t *sums, const int32_t *windows, int zero, ptrdiff_t count) {
  for (ptrdiff_t p = 0; p < count; ++p, sums += 32) {
    const int32_t taken = zero * windows[p * 32];
    for (int k = 0; k < 32; ++k) sums[k] -= taken;
  }
}

/* A run: consecutive pixels in a row of the result, and 32 of their channels, beginning with
 * `channel`. */
typedef struct {
  ptrdiff_t image, row, column, count, channel;
} GB(run);

/* Writes the number that is added to each sum of a run: the addend of its channel, plus the number
 * in `second`, which is float32 or is dequantized. If the result is bytes, NaN gives the smallest
 * byte. */
static void GB(add_second)(const gb_call *c, const GB(run) *run, const float *addends, float *to) {
  const gb_step *s = c->step;
  const ptrdiff_t left = c->out.channels - run->channel;
  const float factor = s->factor2;
  const int zero = s->zero_second;
  GB(place) at = {run->column, run->count, run->row, run->channel / c->in2.own, run->image, 0, 0};
  if (c->in2.bytes == 1) {
    const uint8_t *x = (const uint8_t *)GB(at)(&c->in2, &at) + run->channel % GB_BLOCK;
    for (ptrdiff_t k = 0; k < run->count; ++k, x += GB_BLOCK, to += 32)
      for (int v = 0; v < 32; ++v) to[v] = addends[v] + (float)(x[v] - zero) * factor;
    return;
  }
  for (ptrdiff_t v = 0; v < 32 && v < left; v += GB_V, ++at.block) {
    const float *x = GB(at)(&c->in2, &at);
    const GB(vec) addend = GB(load_loose)(addends + v), least = GB(all)(-__builtin_inff());
    for (ptrdiff_t k = 0; k < run->count; ++k) {
      const GB(vec) sum = addend + GB(load)(x + k * GB_V) * factor;
      *(GB(loose) *)(to + k * 32 + v) = (GB(loose))(s->has_floats ? sum : GB_MAX(sum, least));
    }
  }
}

/* Converts the sums of a run to bytes. */
static void GB(finish_bytes)(const gb_call *c, const int32_t *sums, const GB(run) *run,
                             const float *factors, const float *addends) {
  const gb_step *s = c->step;
  const GB(place) at = {run->column, run->count, run->row, run->channel / GB_BLOCK, run->image,
                        0,           0};
  uint8_t *y = (uint8_t *)GB(at)(&c->out, &at) + run->channel % GB_BLOCK;
  if (s->adds_floats) {
    float all[GB_POSITIONS * 32];
    GB(add_second)(c, run, addends, all);
    GB(requantize)(sums, factors, all, 32, s->zero, s->least, s->most, y, run->count);
  } else if (c->in2.data) { /* in2 may be in the memory of the result */
    const uint8_t *second = (const uint8_t *)GB(at)(&c->in2, &at) + run->channel % GB_BLOCK;
    uint8_t made[GB_POSITIONS * GB_BLOCK];
    GB(requantize)(sums, factors, addends, 0, s->zero_product, 0, 255, made, run->count);
    for (ptrdiff_t k = 0; k < run->count * GB_BLOCK; k += GB_BLOCK)
      GB(add_bytes)(s->is_swapped ? second + k : made + k, s->is_swapped ? made + k : second + k,
                    y + k, s->factor, s->factor2, s->addend, s);
  } else {
    GB(requantize)(sums, factors, addends, 0, s->zero, s->least, s->most, y, run->count);
  }
}

/* Converts the sums of a run to float32. */
static void GB(finish_floats)(const gb_call *c, const int32_t *sums, const GB(run) *run,
                              const float *factors, const float *addends, GB(range) *range) {
  static const float zeros[32];
  const gb_step *s = c->step;
  const ptrdiff_t left = c->out.channels - run->channel, count = run->count;
  float second[GB_POSITIONS * 32];
  if (c->in2.data) GB(add_second)(c, run, zeros, second);
  const int is_first = c->in2.data && !s->after;
  for (ptrdiff_t v = 0; v < 32 && v < left; v += GB_V) {
    const GB(place) at = {run->column, count, run->row, (run->channel + v) / GB_V, run->image,
                          0, 0};
    const GB(vec) factor = GB(load_loose)(factors + v), addend = GB(load_loose)(addends + v);
    float *y = GB(at)(&c->out, &at);
    /* the bias is added first, as in onnxruntime */
    for (ptrdiff_t k = 0; k < count; ++k) {
      const GB(vec) made =
          __builtin_convertvector(*(const GB(ints) *)(sums + k * 32 + v), GB(vec)) * factor +
          addend;
      *(GB(vec) *)(y + k * GB_V) = is_first ? made + GB(load_loose)(second + k * 32 + v) : made;
    }
    GB(activate)(y, count * GB_V, s);
    for (ptrdiff_t k = 0; s->after && k < count; ++k)
      *(GB(vec) *)(y + k * GB_V) = GB(load)(y + k * GB_V) + GB(load_loose)(second + k * 32 + v);
    if (c->ranges) GB(stretch)(range, y, count, GB(lanes_of)(c, at.block));
  }
}

/* Converts the sums of positions, from position `first` on, to the result: the pixels of each row,
 * without the positions in the gaps between rows. */
static void GB(finish_positions)(const gb_call *c, const int32_t *sums, const float *factors,
                                 const float *addends, ptrdiff_t line, ptrdiff_t first,
                                 ptrdiff_t count, ptrdiff_t image, ptrdiff_t channel,
                                 GB(range) *range) {
  const ptrdiff_t pitch = GB(byte_pitch)(c);
  GB(run) run = {image, line + first / pitch, first % pitch, 0, channel};
  for (ptrdiff_t done = 0; done < count; ++run.row, run.column = 0) {
    const ptrdiff_t left = c->out.width - run.column, rest = count - done;
    run.count = left < rest ? left : rest;
    if (run.count > 0 && c->step->has_floats)
      GB(finish_floats)(c, sums + done * 32, &run, factors, addends, range);
    else if (run.count > 0)
      GB(finish_bytes)(c, sums + done * 32, &run, factors, addends);
    done += pitch - run.column < rest ? pitch - run.column : rest;
  }
}

void GB(byte_convolve)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_step *s = c->step;
  const ptrdiff_t pitch = GB(byte_pitch)(c);
  const ptrdiff_t length = c->is_flat ? (c->out.height - 1) * pitch + c->out.width : pitch;
  const ptrdiff_t parts = (length + c->part - 1) / c->part; /* parts of a line */
  const ptrdiff_t panels =
      c->in.blocks * s->kernel[0] * (c->in.is_planar ? 1 : s->kernel[1]) * GB_PANEL;
  const int32_t *starts = (const int32_t *)c->weights;
  const int8_t *weights = (const int8_t *)(starts + (c->out.channels + 31) / 32 * 32 + GB_OUTS);
  int32_t sums[2][GB_POSITIONS * 32] __attribute__((aligned(64)));
  int32_t start[GB_BLOCK] __attribute__((aligned(64)));
  float factors[GB_BLOCK], addends[GB_BLOCK];
  /* the sums of the bytes in each window, for correcting sums if the weights have a zero point */
  int32_t windows[GB_POSITIONS * 32] __attribute__((aligned(64)));
  const ptrdiff_t all = (c->out.channels + 31) / 32 * 32,
                  blocks = (c->out.channels + GB_BLOCK - 1) / GB_BLOCK;
  const gb_grid grid = gb_grid_of(c, 1.0f, 1); /* the scale and zero point of the image */
  int32_t windows_start[2 * GB_OUTS] __attribute__((aligned(64))) = {0};
  if (s->zero_weights) windows_start[0] = starts[all] * grid.zero;
  gb_byte_tile t = {.x_position = 4 * s->stride[1] * c->in.pixel,
                    .x_block = 4 * c->in.plane,
                    .x_row = 4 * s->dilation[0] * c->in.row,
                    .x_column = 4 * s->dilation[1] * c->in.pixel,
                    .w_outs = panels,
                    .blocks = c->in.blocks,
                    .rows = s->kernel[0],
                    .columns = s->kernel[1],
                    .quads = ((c->in.channels - 1) % GB_BLOCK) / 4 + 1};
  if (c->in.is_planar) { /* four bytes for each pixel: the columns of a window are adjacent */
    t.columns = 1;
    t.quads = s->kernel[1];
  }
  gb_byte_sums *sum = GB(plain_bytes);
#if GB_V >= 8 && GB_HAS_INTRINSICS
  const int features = gb_instructions();
  if (features & (GB_V == 8 ? GB_HAS_VNNI : GB_HAS_VNNI_512)) sum = GB(vnni_bytes);
#if GB_V == 16
  gb_tile_state before;
  const int has_tiles = (features & GB_HAS_BYTE_TILES) != 0;
  if (has_tiles) {
    sum = GB(amx_bytes);
    gb_begin_tiles(&before);
  }
#endif
#endif
  GB(range) range = GB(no_range)();
  const ptrdiff_t begin = unit;
  (void)scratch;
  for (GB(place) at = GB(place_of)(c, unit, blocks); unit < end;
       ++unit, GB(advance)(c, &at, blocks)) {
    const ptrdiff_t line = at.part / parts, first = at.part % parts * c->part;
    const ptrdiff_t count = length - first < c->part ? length - first : c->part;
    const ptrdiff_t y0 = c->is_flat ? 0 : line, left = c->out.channels - at.block * GB_BLOCK;
    const ptrdiff_t pairs = left > 32 ? 2 : 1,
                    items = (count + GB_POSITIONS - 1) / GB_POSITIONS * pairs;
    for (int k = 0; k < 32 * pairs; ++k) {
      const ptrdiff_t channel = at.block * GB_BLOCK + k;
      start[k] = starts[channel] * grid.zero;
      factors[k] = grid.scale * c->tensor[channel];
      addends[k] = 0.0f;
      if (channel >= c->out.channels) continue;
      start[k] += GB(integer_bias)(c, channel);
      addends[k] = GB(float_bias)(c, channel);
    }
    const uint8_t *x = (const uint8_t *)(c->in.data + at.image * c->in.image +
                                         (y0 * s->stride[0] - s->pads[0]) * c->in.row +
                                         (first * s->stride[1] - s->pads[1]) * c->in.pixel);
    /* In this order, the processor can multiply for the next positions while it finishes the sums
     * of the last ones. */
    for (ptrdiff_t item = 0; item <= items; ++item) {
      if (item < items) {
        const ptrdiff_t p = item / pairs * GB_POSITIONS, pair = item % pairs;
        const ptrdiff_t n = count - p < GB_POSITIONS ? count - p : GB_POSITIONS;
        t.x = x + p * t.x_position;
        if (s->zero_weights && pair == 0) {
          t.w = weights + all / GB_OUTS * panels;
          t.start = windows_start;
          t.sums = windows;
          sum(&t, n, GB_OUTS);
        }
        t.w = weights + (at.block * 4 + pair * 2) * panels;
        t.start = start + pair * 32;
        t.sums = sums[item % 2];
        sum(&t, n, left - pair * 32 < 32 ? (int)(left - pair * 32) : 32);
        if (s->zero_weights) GB(take_windows)(t.sums, windows, s->zero_weights, n);
      }
      if (item == 0) continue;
      const ptrdiff_t p = (item - 1) / pairs * GB_POSITIONS, pair = (item - 1) % pairs;
      GB(finish_positions)(c, sums[(item - 1) % 2], factors + pair * 32, addends + pair * 32, y0,
                           first + p, count - p < GB_POSITIONS ? count - p : GB_POSITIONS, at.image,
                           at.block * GB_BLOCK + pair * 32, &range);
    }
  }
  GB(keep_range)(c, begin, &range);
#if GB_V == 16 && GB_HAS_INTRINSICS
  if (has_tiles) gb_end_tiles(&before);
#endif
}

/* Packs weights [out, in, rows, columns]. `of_out` and `of_in` are the distances between two output
 * channels, and between two input channels. */
GK_INLINE void GB(pack_panels)(const uint8_t *w, float *to, const gb_step *s, ptrdiff_t in,
                               ptrdiff_t out, ptrdiff_t of_out, ptrdiff_t of_in) {
  const ptrdiff_t taps = s->kernel[0] * s->kernel[1], blocks = (in + GB_BLOCK - 1) / GB_BLOCK;
  const ptrdiff_t panels = blocks * taps * GB_PANEL, outs = (out + 31) / 32 * 32;
  int32_t *start = (int32_t *)to;
  int8_t *packed = (int8_t *)(start + outs + GB_OUTS);
  for (ptrdiff_t o = 0; o < out; ++o) {
    int32_t sum = 0;
    for (ptrdiff_t i = 0; i < in; ++i)
      for (ptrdiff_t k = 0; k < taps; ++k) {
        const int8_t v = (int8_t)(w[o * of_out + i * of_in + k] ^ s->flip);
        packed[o / GB_OUTS * panels + (i / GB_BLOCK * taps + k) * GB_PANEL +
               i % GB_BLOCK / 4 * 64 + o % GB_OUTS * 4 + i % 4] = v;
        sum += v;
      }
    start[o] = -s->zero_in * sum;
  }
  if (!s->zero_weights) return;
  for (ptrdiff_t i = 0; i < in; ++i)
    for (ptrdiff_t k = 0; k < taps; ++k)
      packed[outs / GB_OUTS * panels + (i / GB_BLOCK * taps + k) * GB_PANEL +
             i % GB_BLOCK / 4 * 64 + i % 4] = 1;
  start[outs] = -s->zero_in * (int32_t)(in * taps);
}

void GB(pack_bytes)(const float *f, float *to, const gb_step *s, ptrdiff_t in, ptrdiff_t out) {
  const ptrdiff_t taps = s->kernel[0] * s->kernel[1];
  GB(pack_panels)((const uint8_t *)f, to, s, in, out, in * taps, taps);
}

void GB(pack_byte_rows)(const float *f, float *to, const gb_step *s, ptrdiff_t in, ptrdiff_t out) {
  GB(pack_panels)((const uint8_t *)f, to, s, in, out, 1, out);
}

/* Packs weights so that each column of a kernel has four bytes, one for each channel. */
void GB(pack_pixels)(const float *f, float *to, const gb_step *s, ptrdiff_t in, ptrdiff_t out) {
  const ptrdiff_t columns = s->kernel[1], taps = s->kernel[0] * columns;
  const uint8_t *w = (const uint8_t *)f;
  int32_t *start = (int32_t *)to;
  const ptrdiff_t outs = (out + 31) / 32 * 32;
  int8_t *packed = (int8_t *)(start + outs + GB_OUTS);
  for (ptrdiff_t o = 0; o < out; ++o) {
    int32_t sum = 0;
    for (ptrdiff_t i = 0; i < in; ++i)
      for (ptrdiff_t k = 0; k < taps; ++k) {
        const int8_t v = (int8_t)(w[(o * in + i) * taps + k] ^ s->flip);
        packed[(o / GB_OUTS * s->kernel[0] + k / columns) * GB_PANEL + k % columns * 64 +
               o % GB_OUTS * 4 + i] = v;
        sum += v;
      }
    start[o] = -s->zero_in * sum;
  }
  if (!s->zero_weights) return;
  for (ptrdiff_t i = 0; i < in; ++i)
    for (ptrdiff_t k = 0; k < taps; ++k)
      packed[(outs / GB_OUTS * s->kernel[0] + k / columns) * GB_PANEL + k % columns * 64 + i] = 1;
  start[outs] = -s->zero_in * (int32_t)(in * taps);
}

#else
static ptrdiff_t gb_first_panels(const gb_width *width, const gb_step *s, ptrdiff_t in,
                                 ptrdiff_t out) {
  (void)width;
  (void)in;
  return gb_rounded(out, 32) + 16 + (gb_rounded(out, 32) + 32) * s->kernel[0] * 16;
}

static ptrdiff_t gb_byte_panels(const gb_width *width, const gb_step *s, ptrdiff_t in,
                                ptrdiff_t out) {
  (void)width;
  const ptrdiff_t outs = gb_rounded(out, 32);
  return outs + 16 +
         gb_rounded(in, 64) * (outs + (s->zero_weights ? 32 : 0)) * s->kernel[0] * s->kernel[1] / 4;
}

/* Divides a step into parts. A part is some positions of one row; or of all rows, if the rows are
 * adjacent in the image. */
static void gb_divide_bytes(const gb_width *width, gb_call *c) {
  enum { GB_PART_OF = 256, GB_KEPT = 1 << 20 };
  const gb_step *s = c->step;
  (void)width;
  c->is_flat = s->stride[0] == 1 && s->stride[1] == 1;
  const ptrdiff_t pitch = c->in.pixel ? c->in.row / c->in.pixel : 1;
  const ptrdiff_t length = c->is_flat ? (c->out.height - 1) * pitch + c->out.width : c->out.width;
  const ptrdiff_t lines = c->is_flat ? 1 : c->out.height;
  c->part = GB_PART_OF;
  const ptrdiff_t parts = (length + c->part - 1) / c->part;
  c->rows = lines * parts;
  const ptrdiff_t read = c->in.image * 4 / (c->rows > 0 ? c->rows : 1) + 1;
  const ptrdiff_t most = GB_KEPT / read + 1;
  c->strip = most < c->rows ? most : c->rows;
  c->units = c->out.batch * ((c->out.channels + 63) / 64) * c->rows;
}

static double gb_byte_ns(const gb_width *width, const gb_call *c) {
  return gb_products(c) / 16.0 / width->vector + 0.05 * gb_made(c);
}
#endif
