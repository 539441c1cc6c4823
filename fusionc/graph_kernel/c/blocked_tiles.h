/* Sums of products over tiles of pixels by blocks of channels, for one width of vectors.
 *
 * GB_V floats are a vector, GB_MADD multiplies and adds, GB_TILE pixels by two blocks of channels stay in registers,
 * GB_STEP channels in are worked on between two looks whether there are more. */
#define GB_STEP 4
#define GB_LINE 16 /* floats in a line of a cache */
#define GB_ASKING (2 * GB_STEP * GB_V / (2 * GB_LINE)) /* so many tiles ask for the next weights, 2 lines in each step */
typedef float GB(vec) __attribute__((vector_size(4 * GB_V), aligned(4 * GB_V)));
typedef float GB(loose) __attribute__((vector_size(4 * GB_V), aligned(4))); /* in a tensor, which may lie anywhere */
typedef int32_t GB(bits) __attribute__((vector_size(4 * GB_V), aligned(4)));

/* What a tile reads and makes. Distances are in floats. */
typedef struct {
  const float *x; /* at the first pixel of the tile and the first element of the kernel */
  ptrdiff_t x_pixel, x_block, x_row, x_column;
  const float *w; /* [block][row][column][channel in][GB_V channels out, or twice as many] */
  ptrdiff_t blocks, last, rows, columns; /* last: channels of the last block, rounded up to GB_STEP */
  const float *ahead; /* weights that are read soon, from slower memory: a tile asks for 2 cache lines in each step */
  ptrdiff_t ahead_step;
  const float *start; /* what sums begin with, for each channel out; NULL: with zero */
  float *y;
  ptrdiff_t y_pixel, y_block;
  const float *residual; /* NULL where there is none */
  ptrdiff_t residual_pixel, residual_block;
  const gb_step *step; /* for its activation; NULL: sums alone */
  const int32_t *lanes; /* which channels there are of the last block; NULL: all */
} GB(tile);

#define GB_EACH(kind, formula)                                 \
  case kind:                                                   \
    _Pragma("omp simd") for (ptrdiff_t i = 0; i < n; ++i) {    \
      float x = p[i];                                          \
      p[i] = (formula);                                        \
    }                                                          \
    break;

/* Applies the activation of a step to n floats. */
static void GB(activate)(float *p, ptrdiff_t n, const gb_step *s) {
  const gk_machine m = gk_machine_with(GB_FUSED);
  const float a = s->alpha, b = s->beta;
  switch (s->activation) {
    GB_EACH(GB_RELU, x < 0.0f ? 0.0f : x)
    GB_EACH(GB_CLIP, gk_at_most(gk_at_least(x, a), b))
    GB_EACH(GB_LEAKY, x < 0.0f ? a * x : x)
    GB_EACH(GB_SIGMOID, x < -18.0f ? 0.0f : gk_sigmoid_f32(x, m)) /* as onnxruntime has it: below 2e-8 nothing is left */
    GB_EACH(GB_HARD_SIGMOID, gk_at_most(gk_at_least(a * x + b, 0.0f), 1.0f))
    GB_EACH(GB_HARD_SWISH, x * gk_at_most(gk_at_least(x * (1.0f / 6.0f) + 0.5f, 0.0f), 1.0f))
    GB_EACH(GB_SWISH, x * gk_sigmoid_f32(a * x, m))
    GB_EACH(GB_GELU, 0.5f * x * (1.0f + gk_erf_f32(x * 0.70710678f, m)))
    GB_EACH(GB_TANH, gk_tanh_f32(x, m))
    GB_EACH(GB_TANH_GELU, 0.5f * x * (1.0f + gk_tanh_f32(0.79788456f * (x + 0.044715f * x * x * x), m)))
    GB_EACH(GB_CLIP_SWISH, x * gk_at_most(gk_at_least(a * x + b, 0.0f), 1.0f))
  }
}

GK_INLINE GB(vec) GB(load)(const float *p) { return *(const GB(vec) *)p; }
GK_INLINE GB(vec) GB(load_loose)(const float *p) { return (GB(vec))*(const GB(loose) *)p; }
GK_INLINE GB(vec) GB(all)(float x) { return x - (GB(vec)){0}; } /* x + 0 were another number where x is -0 */

/* x within bounds, and NaN for NaN */
GK_INLINE GB(vec) GB(within)(GB(vec) x, float least, float most) { return GB_MIN(GB(all)(most), GB_MAX(GB(all)(least), x)); }

/* For each pixel of a tile, one after the other: in a loop their sums would be in memory. */
#define GB_FOR_PIXELS(r) _Pragma("GCC unroll 16") for (int r = 0; r < R; ++r)

/* Whether nothing is left to do behind `finish`: activations of a few instructions are applied there, in registers. */
GK_INLINE int GB(is_finished)(const gb_step *s) {
  return !s || ((s->activation <= GB_CLIP || s->activation == GB_HARD_SWISH || s->activation == GB_CLIP_SWISH) && !s->after);
}

/* `sums` become results: R pixels of one block of channels. */
GK_INLINE void GB(finish)(const GB(tile) *t, GB(vec) *sums, float *y, const float *residual, const int32_t *lanes,
                          const int R) {
  const gb_step *s = t->step;
  if (lanes) /* an infinite number times a weight of zero is none, and would reach all channels from where none is */
    GB_FOR_PIXELS(r) sums[r] = (GB(vec))((GB(bits))sums[r] & *(const GB(bits) *)lanes);
  if (residual && !s->after)
    GB_FOR_PIXELS(r) sums[r] += GB(load_loose)(residual + r * t->residual_pixel);
  if (s && GB(is_finished)(s) && s->activation <= GB_CLIP && s->activation != GB_NONE) {
    const float least = s->activation == GB_RELU ? 0.0f : s->alpha, most = s->activation == GB_RELU ? INFINITY : s->beta;
    GB_FOR_PIXELS(r) sums[r] = GB(within)(sums[r], least, most);
  } else if (s && GB(is_finished)(s) && s->activation != GB_NONE) {
    const float a = s->activation == GB_HARD_SWISH ? 1.0f / 6.0f : s->alpha, b = s->activation == GB_HARD_SWISH ? 0.5f : s->beta;
    GB_FOR_PIXELS(r) sums[r] *= GB(within)(GB_MADD(sums[r], GB(all)(a), GB(all)(b)), 0.0f, 1.0f);
  }
  GB_FOR_PIXELS(r) *(GB(loose) *)(y + r * t->y_pixel) = (GB(loose))sums[r];
}

/* What is left to do: activations of many instructions, of n pixels side by side that are in the nearest cache, and sums
 * behind activations. */
static void GB(finish_pixels)(const GB(tile) *t, ptrdiff_t n, float *y, const float *residual) {
  if (t->y_pixel == GB_V) GB(activate)(y, n * GB_V, t->step);
  else
    for (ptrdiff_t k = 0; k < n; ++k) GB(activate)(y + k * t->y_pixel, GB_V, t->step);
  if (residual && t->step->after)
    for (ptrdiff_t k = 0; k < n; ++k) *(GB(loose) *)(y + k * t->y_pixel) += *(const GB(loose) *)(residual + k * t->residual_pixel);
}

/* Channels of the last block that sums have to be made of; those behind are zero. */
GK_INLINE ptrdiff_t GB(last_of)(ptrdiff_t channels) { return (channels - 1) % GB_V / GB_STEP * GB_STEP + GB_STEP; }

/* R pixels by O blocks of channels out; C channels of a block in. `pixel` is how far pixels lie apart. */
GK_INLINE void GB(sum)(const GB(tile) *t, const ptrdiff_t pixel, const int R, const int O, const int C) {
  const int step = C < GB_STEP ? C : GB_STEP;
  GB(vec) s0[GB_TILE], s1[GB_TILE];
  GB(vec) b0 = {0}, b1 = {0};
  if (t->start) {
    b0 = GB(load)(t->start);
    if (O > 1) b1 = GB(load)(t->start + GB_V);
  }
  GB_FOR_PIXELS(r) s0[r] = b0, s1[r] = b1;
  const float *w = t->w, *block = t->x, *ahead = t->ahead;
  for (ptrdiff_t b = 0; b < t->blocks; ++b, block += t->x_block) {
    const float *row = block;
    const ptrdiff_t channels = C > 1 && b + 1 == t->blocks ? t->last : C;
    for (ptrdiff_t i = 0; i < t->rows; ++i, row += t->x_row) {
      const float *tap = row;
      for (ptrdiff_t j = 0; j < t->columns; ++j, tap += t->x_column, w += C * O * GB_V) {
        const float *x = tap, *these = w;
        for (ptrdiff_t left = channels; left > 0; left -= step, x += step, these += step * O * GB_V) {
          if (C > 1) {
            __builtin_prefetch(ahead, 0, 2);
            __builtin_prefetch(ahead + GB_LINE, 0, 2);
            ahead += t->ahead_step;
          }
          __asm__("" : "+r"(x)); /* or else gcc keeps for later turns what these read: more than fits into registers */
#pragma GCC unroll 4
          for (int c = 0; c < step; ++c) {
            const GB(vec) w0 = GB(load)(these + c * O * GB_V), w1 = O > 1 ? GB(load)(these + (c * O + 1) * GB_V) : w0;
            GB_FOR_PIXELS(r) {
              const GB(vec) v = GB(all)(x[r * pixel + c]);
              s0[r] = GB_MADD(v, w0, s0[r]);
              if (O > 1) s1[r] = GB_MADD(v, w1, s1[r]);
            }
          }
        }
      }
    }
  }
  GB(finish)(t, s0, t->y, t->residual, O > 1 ? NULL : t->lanes, R);
  if (O > 1) GB(finish)(t, s1, t->y + t->y_block, t->residual ? t->residual + t->residual_block : NULL, t->lanes, R);
}

/* R pixels of one block, each channel by itself, by kernels of K columns; `pixel` and `column` are how far those lie
 * apart. */
GK_INLINE void GB(each_sum)(const GB(tile) *t, const ptrdiff_t pixel, const ptrdiff_t column, const int R, const ptrdiff_t K) {
  GB(vec) sums[GB_TILE];
  GB_FOR_PIXELS(r) sums[r] = t->start ? GB(load)(t->start) : (GB(vec)){0};
  const float *w = t->w, *row = t->x;
  for (ptrdiff_t i = 0; i < t->rows; ++i, row += t->x_row) {
    const float *x = row;
#pragma GCC unroll 8
    for (ptrdiff_t j = 0; j < K; ++j, x += column, w += GB_V) {
      GB_FOR_PIXELS(r) sums[r] = GB_MADD(GB(load)(x + r * pixel), GB(load)(w), sums[r]);
    }
  }
  GB(finish)(t, sums, t->y, t->residual, t->lanes, R);
}

typedef void GB(tile_function)(const GB(tile) *);
#define GB_TILE_OF(r)                                                                     \
  static void GB(one_##r)(const GB(tile) * t) { GB(sum)(t, GB_V, r, 1, GB_V); }             \
  static void GB(two_##r)(const GB(tile) * t) { GB(sum)(t, GB_V, r, 2, GB_V); }             \
  static void GB(far_one_##r)(const GB(tile) * t) { GB(sum)(t, t->x_pixel, r, 1, GB_V); }   \
  static void GB(far_two_##r)(const GB(tile) * t) { GB(sum)(t, t->x_pixel, r, 2, GB_V); }   \
  static void GB(first_one_##r)(const GB(tile) * t) { GB(sum)(t, t->x_pixel, r, 1, 1); }    \
  static void GB(first_two_##r)(const GB(tile) * t) { GB(sum)(t, t->x_pixel, r, 2, 1); }    \
  static void GB(each_##r)(const GB(tile) * t) { GB(each_sum)(t, t->x_pixel, t->x_column, r, t->columns); }                \
  static void GB(each_3_##r)(const GB(tile) * t) { GB(each_sum)(t, GB_V, GB_V, r, 3); }              \
  static void GB(each_5_##r)(const GB(tile) * t) { GB(each_sum)(t, GB_V, GB_V, r, 5); }              \
  static void GB(each_3_2_##r)(const GB(tile) * t) { GB(each_sum)(t, 2 * GB_V, GB_V, r, 3); }            \
  static void GB(each_5_2_##r)(const GB(tile) * t) { GB(each_sum)(t, 2 * GB_V, GB_V, r, 5); }
GB_TILES(GB_TILE_OF)
#undef GB_TILE_OF

/* The functions by pixels, for one block of channels out and for two: of pixels side by side, of others, of planar images;
 * then of each channel by itself: any kernel, 3 and 5 columns, the same with a stride of 2. */
#define GB_ONE(r) GB(one_##r),
#define GB_TWO(r) GB(two_##r),
#define GB_FAR_ONE(r) GB(far_one_##r),
#define GB_FAR_TWO(r) GB(far_two_##r),
#define GB_FIRST_ONE(r) GB(first_one_##r),
#define GB_FIRST_TWO(r) GB(first_two_##r),
#define GB_EACH(r) GB(each_##r),
#define GB_EACH_3(r) GB(each_3_##r),
#define GB_EACH_5(r) GB(each_5_##r),
#define GB_EACH_3_2(r) GB(each_3_2_##r),
#define GB_EACH_5_2(r) GB(each_5_2_##r),
enum { GB(near) = 0, GB(far) = 2, GB(first) = 4, GB(each) = 6 };
static GB(tile_function) *const GB(tiles)[][GB_TILE + 1] = {
    {NULL, GB_TILES(GB_ONE)},
    {NULL, GB_TILES(GB_TWO)},
    {NULL, GB_TILES(GB_FAR_ONE)},
    {NULL, GB_TILES(GB_FAR_TWO)},
    {NULL, GB_TILES(GB_FIRST_ONE)},
    {NULL, GB_TILES(GB_FIRST_TWO)},
    {NULL, GB_TILES(GB_EACH)},
    {NULL, GB_TILES(GB_EACH_3)},
    {NULL, GB_TILES(GB_EACH_5)},
    {NULL, GB_TILES(GB_EACH_3_2)},
    {NULL, GB_TILES(GB_EACH_5_2)},
};
#undef GB_ONE
#undef GB_TWO
#undef GB_FAR_ONE
#undef GB_FAR_TWO
#undef GB_FIRST_ONE
#undef GB_FIRST_TWO
#undef GB_EACH
#undef GB_EACH_3
#undef GB_EACH_5
#undef GB_EACH_3_2
#undef GB_EACH_5_2

GK_INLINE GB(tile_function) *const *GB(depthwise_tiles)(const gb_step *s) {
  const int columns = s->kernel[1], stride = s->stride[1];
  const int is_known = s->dilation[1] == 1 && (columns == 3 || columns == 5) && stride <= 2;
  return GB(tiles)[is_known ? GB(each) + 2 * stride + (columns == 5) - 1 : GB(each)];
}

/* Sums of n pixels that lie one after the other, in tiles that are about equal, for some blocks of channels. */
static void GB(pixels)(const GB(tile) *all, ptrdiff_t n, GB(tile_function) *const *tiles, int blocks) {
  const ptrdiff_t count = (n + GB_TILE - 1) / GB_TILE;
  GB(tile) t = *all;
  const ptrdiff_t asked = t.ahead_step * t.blocks * t.rows * t.columns * (GB_V / GB_STEP);
  for (ptrdiff_t k = 0, done = 0; k < count; ++k) {
    const ptrdiff_t r = (n - done) / (count - k);
    tiles[r](&t);
    t.ahead += asked;
    done += r;
    t.x += r * t.x_pixel;
    t.y += r * t.y_pixel;
    if (t.residual) t.residual += r * t.residual_pixel;
  }
  if (GB(is_finished)(all->step)) return;
  for (int b = 0; b < blocks; ++b)
    GB(finish_pixels)(all, n, all->y + b * all->y_block, all->residual ? all->residual + b * all->residual_block : NULL);
}
