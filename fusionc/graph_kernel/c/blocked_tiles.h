/* Sums of products over tiles of pixels by blocks of channels, for one width of vectors.
 *
 * GB_V floats are a vector; GB_MADD multiplies and adds, GB_PERMUTE gives each lane the element whose number another vector
 * has. GB_TILE pixels by two blocks of channels stay in registers; GB_TILES and GB_SOME_TILES apply a macro to the numbers
 * of pixels for which there are functions. GB_STEP channels in are worked on between two looks whether there are more;
 * weights of GB_NEAR bytes stay in the nearest cache. GB_IS_ASSEMBLED: whether GB(add_columns) is there. */
#define GB_LINE 16 /* floats in a line of a cache */
#define GB_PART (9 * GB_TILE) /* pixels of a part that is any pixels, at most (gb_divide_pixels) */
#define GB_ASKED (GB_IS_ASSEMBLED ? 2 : 4) /* lines that a tile asks for in each step */
#define GB_ASKING (2 * GB_STEP * GB_V / (2 * GB_LINE)) /* so many tiles ask for the next weights, 2 lines more in each step */
typedef float GB(vec) __attribute__((vector_size(4 * GB_V), aligned(4 * GB_V)));
typedef float GB(loose) __attribute__((vector_size(4 * GB_V), aligned(4))); /* in a tensor, which may lie anywhere */
typedef int32_t GB(bits) __attribute__((vector_size(4 * GB_V), aligned(4)));

/* What a tile reads and makes. Distances are in floats. */
typedef struct {
  const float *x; /* at the first pixel of the tile and the first element of the kernel */
  ptrdiff_t x_pixel, x_block, x_row, x_column;
  const float *w; /* [block][row][column][channel in][GB_V channels out, or twice as many] */
  ptrdiff_t blocks, last, rows, columns; /* last: channels of the last block, rounded up to GB_STEP; or of a group */
  const int32_t *sources; /* where each lane finds the first channel of its group */
  const float *ahead; /* weights that are read soon, from slower memory. NULL: none */
  ptrdiff_t ahead_step, asked; /* how far on a tile asks for them after a step, and after all of these */
  const float *start; /* what sums begin with, for each channel out; NULL: with zero */
  int is_begun;       /* they begin with what is at y */
  float *y;
  ptrdiff_t y_pixel, y_block;
  const float *residual; /* NULL where there is none */
  ptrdiff_t residual_pixel, residual_block;
  const gb_step *step; /* for its activation; NULL: sums alone */
  const int32_t *lanes; /* which channels there are of the last block; NULL: all */
} GB(tile);

GK_INLINE GB(vec) GB(load)(const float *p) { return *(const GB(vec) *)p; }
GK_INLINE GB(vec) GB(load_loose)(const float *p) { return (GB(vec))*(const GB(loose) *)p; }
GK_INLINE GB(vec) GB(all)(float x) { return x - (GB(vec)){0}; } /* x + 0 were another number where x is -0 */

/* x within bounds, and NaN for NaN */
GK_INLINE GB(vec) GB(within)(GB(vec) x, float least, float most) { return GB_MIN(GB(all)(most), GB_MAX(GB(all)(least), x)); }

#if GB_V > 4 /* others have no instruction that looks up a table */
/* x / (1 + exp(-a x)), where exp(-a x) is 2^(n / GB_V) exp(r): the last bits of n choose a power of two from a table, the
 * others are its exponent, and r is so small that three products suffice. What is 2^128 or more is infinite. */
static void GB(swish)(float *p, ptrdiff_t n, float a) {
  static const float powers[] = {
#if GB_V == 8
      1.0f, 1.09050775f, 1.18920708f, 1.29683959f, 1.41421354f, 1.54221082f, 1.68179286f, 1.8340081f,
#else
      1.0f, 1.04427373f, 1.09050775f, 1.13878858f, 1.18920708f, 1.24185777f, 1.29683959f, 1.35425556f,
      1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f, 1.68179286f, 1.75625217f, 1.8340081f, 1.91520655f,
#endif
  };
  enum { BITS = GB_V == 8 ? 3 : 4 };
  const GB(vec) one = GB(all)(1.0f), shift = GB(all)(GK_TO_INTEGER / GB_V), table = GB(load_loose)(powers);
  for (ptrdiff_t i = 0; i < n; i += GB_V) {
    const GB(vec) x = GB(load_loose)(p + i), c = GB(within)(x * -a, -87.0f, 88.7228394f);
    const GB(vec) shifted = GB_MADD(c, GB(all)(1.44269504f), shift), r = GB_MADD(shifted - shift, GB(all)(-0.693147181f), c);
    const GB(vec) rest = GB_MADD(GB_MADD(GB_MADD(GB(all)(0.166681156f), r, GB(all)(0.500064790f)), r, one), r, one);
    const GB(bits) number = (GB(bits))shifted, power = (GB(bits))GB_PERMUTE(table, number) + (number >> BITS << 23);
    *(GB(loose) *)(p + i) = (GB(loose))(x / GB_MADD(rest, (GB(vec))power, one));
  }
}
#endif

#define GB_ACTIVATION(kind, formula)                          \
  case kind:                                                  \
    _Pragma("omp simd") for (ptrdiff_t i = 0; i < n; ++i) {   \
      float x = p[i];                                         \
      p[i] = (formula);                                       \
    }                                                         \
    break;

/* Applies the activation of a step to n floats. */
static void GB(activate)(float *p, ptrdiff_t n, const gb_step *s) {
  const gk_machine m = gk_machine_with(GB_FUSED);
  const float a = s->alpha, b = s->beta;
  switch (s->activation) {
    GB_ACTIVATION(GB_RELU, x < 0.0f ? 0.0f : x)
    GB_ACTIVATION(GB_CLIP, gk_at_most(gk_at_least(x, a), b))
    GB_ACTIVATION(GB_LEAKY, x < 0.0f ? a * x : x)
    GB_ACTIVATION(GB_SIGMOID, x < -18.0f ? 0.0f : gk_sigmoid_f32(x, m)) /* as onnxruntime has it: below 2e-8 nothing is left */
    GB_ACTIVATION(GB_HARD_SIGMOID, gk_at_most(gk_at_least(a * x + b, 0.0f), 1.0f))
    GB_ACTIVATION(GB_HARD_SWISH, x * gk_at_most(gk_at_least(x * (1.0f / 6.0f) + 0.5f, 0.0f), 1.0f))
#if GB_V > 4
    case GB_SWISH: GB(swish)(p, n, a); break;
#else
    GB_ACTIVATION(GB_SWISH, x * gk_sigmoid_f32(a * x, m))
#endif
    GB_ACTIVATION(GB_GELU, 0.5f * x * (1.0f + gk_erf_f32(x * 0.70710678f, m)))
    GB_ACTIVATION(GB_TANH, gk_tanh_f32(x, m))
    GB_ACTIVATION(GB_TANH_GELU, 0.5f * x * (1.0f + gk_tanh_f32(0.79788456f * (x + 0.044715f * x * x * x), m)))
    GB_ACTIVATION(GB_CLIP_SWISH, x * gk_at_most(gk_at_least(a * x + b, 0.0f), 1.0f))
  }
}

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
  if (residual && !(s && s->after))
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

typedef void GB(tile_function)(GB(tile) *, ptrdiff_t count); /* tiles side by side; leaves the pointers behind them */

/* The functions by pixels, for one block of channels out and for two: of pixels side by side, of others, of planar images;
 * then of each channel by itself: any kernel, 3, 5 and 7 columns, 3 and 5 with a stride of 2; then of groups. NULL for
 * pixels of which there is none. */
extern GB(tile_function) *const GB(tiles)[][GB_LONGEST + 1];
enum { GB(near) = 0, GB(far) = 2, GB(first) = 4, GB(each) = 6, GB(each_of_3), GB(each_second_of_3) = 10, GB(grouped_tiles) = 12 };

GK_INLINE GB(tile_function) *const *GB(tiles_by_lane)(const gb_step *s) {
  const int columns = s->kernel[1], stride = s->stride[1], size = columns / 2;
  if (s->op == GB_GROUPED) return GB(tiles)[GB(grouped_tiles)];
  const int is_known = s->dilation[1] == 1 && columns % 2 && size >= 1 && size <= (stride == 1 ? 3 : stride == 2 ? 2 : 0);
  return GB(tiles)[!is_known ? GB(each) : (stride == 1 ? GB(each_of_3) : GB(each_second_of_3)) + size - 1];
}

/* Sums of n pixels that lie one after the other, in tiles that are about equal, of `longest` pixels at most. */
GK_INLINE void GB(tiles_side_by_side)(GB(tile) *t, ptrdiff_t n, GB(tile_function) *const *tiles, const uint32_t longest) {
  uint32_t count, r; /* which a processor divides faster */
  for (uint32_t left = (uint32_t)n; left > 0; left -= count * r) {
    const uint32_t times = (left + longest - 1) / longest;
    r = left / times;
    count = times - left % times; /* the others have one pixel more */
    if (!tiles[r]) {
      for (r = left < longest ? left : longest; !tiles[r];) --r;
      count = left / r;
    }
    tiles[r](t, count);
  }
}

/* The same for some blocks of channels, with all that is to be done to what they make. `t` is not that of these pixels any
 * more: a copy of it would take as long as a tile. */
static void GB(pixels)(GB(tile) *t, ptrdiff_t n, GB(tile_function) *const *tiles, int blocks) {
  float *y = t->y;
  const float *residual = t->residual;
  if (GB_STEP == GB_V && t->blocks > 1 && t->rows * t->columns == 1) { /* one loop over blocks instead of three */
    t->columns = t->blocks;
    t->x_column = t->x_block;
    t->blocks = 1;
  }
  if (!t->ahead) t->ahead = t->w; /* or else each step would ask for memory that there is not, which takes a while */
  t->asked = t->ahead_step * t->blocks * t->rows * t->columns * (GB_V / GB_STEP);
  GB(tiles_side_by_side)(t, n, tiles, GB_TILE);
  if (GB(is_finished)(t->step)) return;
  for (int b = 0; b < blocks; ++b)
    GB(finish_pixels)(t, n, y + b * t->y_block, residual ? residual + b * t->residual_block : NULL);
}
