/* Sums of products for tiles, for one width of vectors. A tile is some pixels by one or two blocks
 * of output channels. Its sums stay in registers.
 *
 * Macros that depend on the width:
 *   GB_V             the number of floats in a vector
 *   GB_MADD          multiplies and adds
 *   GB_PERMUTE       gives each lane the element whose number is in this lane of another vector
 *   GB_TILE          the most pixels of a tile
 *   GB_TILES,        apply a macro to each number of pixels for which functions exist
 *   GB_SOME_TILES
 *   GB_STEP          the input channels that a loop processes between two tests for its end
 *   GB_NEAR          the bytes of weights that stay in the first-level cache
 *   GB_IS_ASSEMBLED  whether GB(add_columns) is defined */
#define GB_LINE 16 /* floats in a line of a cache */
/* the most pixels of a part that is not a row (see gb_divide_pixels) */
#define GB_PART (9 * GB_TILE)
#define GB_ASKED (GB_IS_ASSEMBLED ? 2 : 4) /* cache lines that a tile prefetches in each step */
/* the number of tiles after which the next weights are prefetched, with 2 lines in each step */
#define GB_ASKING (2 * GB_STEP * GB_V / (2 * GB_LINE))
typedef float GB(vec) __attribute__((vector_size(4 * GB_V), aligned(4 * GB_V)));
/* a vector in a tensor; it need not be aligned */
typedef float GB(loose) __attribute__((vector_size(4 * GB_V), aligned(4)));
typedef int32_t GB(bits) __attribute__((vector_size(4 * GB_V), aligned(4)));

/* What a tile reads and writes. Distances are in floats. */
typedef struct {
  const float *x; /* at the first pixel of the tile, and the first element of the kernel */
  ptrdiff_t x_pixel, x_block, x_row, x_column;
  const float *w; /* [block][row][column][input channel][GB_V output channels, or twice that] */
  /* last: the channels of the last block, rounded up to GB_STEP; or the channels of a group */
  ptrdiff_t blocks, last, rows, columns;
  const int32_t *sources; /* for each lane, the place of the first channel of its group */
  const float *ahead;     /* weights to prefetch, because they are read soon; or NULL */
  /* how far the prefetched address advances after a step, and after all steps */
  ptrdiff_t ahead_step, asked;
  const float *start; /* the initial sum of each output channel; NULL means zero */
  int is_begun;       /* whether the initial sums are the numbers at y instead */
  float *y;
  ptrdiff_t y_pixel, y_block;
  const float *residual; /* an image to add, or NULL */
  ptrdiff_t residual_pixel, residual_block;
  const gb_step *step;  /* for its activation; NULL means that only sums are written */
  const int32_t *lanes; /* the mask of the channels of the last block; NULL means all */
} GB(tile);

GK_INLINE GB(vec) GB(load)(const float *p) { return *(const GB(vec) *)p; }
GK_INLINE GB(vec) GB(load_loose)(const float *p) { return (GB(vec))*(const GB(loose) *)p; }
/* Written as x - 0, because x + 0 would change -0. */
GK_INLINE GB(vec) GB(all)(float x) { return x - (GB(vec)){0}; }

/* x limited to the bounds; NaN stays NaN */
GK_INLINE GB(vec) GB(within)(GB(vec) x, float least, float most) {
  return GB_MIN(GB(all)(most), GB_MAX(GB(all)(least), x));
}

/* A loop over the pixels of a tile. It must be unrolled, because otherwise the sums would be in
 * memory. */
#define GB_FOR_PIXELS(r) _Pragma("GCC unroll 16") for (int r = 0; r < R; ++r)

/* Whether `finish` completes a step. It does if the activation takes few instructions: then
 * `finish` applies it while the sums are in registers. */
GK_INLINE int GB(is_finished)(const gb_step *s) {
  return !s || ((s->activation <= GB_CLIP || s->activation == GB_HARD_SWISH ||
                 s->activation == GB_CLIP_SWISH) &&
                !s->after);
}

/* Converts `sums` to results: R pixels of one block of channels. */
GK_INLINE void GB(finish)(const GB(tile) *t, GB(vec) *sums, float *y, const float *residual,
                          const int32_t *lanes, const int R) {
  const gb_step *s = t->step;
  /* Clear unused lanes: an infinity there, multiplied by a zero weight, would give NaN for all
   * channels. */
  if (lanes)
    GB_FOR_PIXELS(r) sums[r] = (GB(vec))((GB(bits))sums[r] & *(const GB(bits) *)lanes);
  if (residual && !(s && s->after))
    GB_FOR_PIXELS(r) sums[r] += GB(load_loose)(residual + r * t->residual_pixel);
  if (s && GB(is_finished)(s) && s->activation <= GB_CLIP && s->activation != GB_NONE) {
    const float least = s->activation == GB_RELU ? 0.0f : s->alpha,
                most = s->activation == GB_RELU ? INFINITY : s->beta;
    GB_FOR_PIXELS(r) sums[r] = GB(within)(sums[r], least, most);
  } else if (s && GB(is_finished)(s) && s->activation != GB_NONE) {
    const float a = s->activation == GB_HARD_SWISH ? 1.0f / 6.0f : s->alpha,
                b = s->activation == GB_HARD_SWISH ? 0.5f : s->beta;
    GB_FOR_PIXELS(r) sums[r] *= GB(within)(GB_MADD(sums[r], GB(all)(a), GB(all)(b)), 0.0f, 1.0f);
  }
  GB_FOR_PIXELS(r) *(GB(loose) *)(y + r * t->y_pixel) = (GB(loose))sums[r];
}

/* How many channels of the last block are added up. The channels after them are zero. */
GK_INLINE ptrdiff_t GB(last_of)(ptrdiff_t channels) {
  return (channels - 1) % GB_V / GB_STEP * GB_STEP + GB_STEP;
}

/* computes `count` consecutive tiles, and moves the pointers past the last one */
typedef void GB(tile_function)(GB(tile) *, ptrdiff_t count);

/* A function that computes tiles of r pixels. */
#define GB_FUNCTION(name, sums, r)                           \
  static void GB(name)(GB(tile) *t, ptrdiff_t count) {       \
    for (; count > 0; --count) {                             \
      sums;                                                  \
      t->ahead += t->asked;                                  \
      t->x += r * t->x_pixel;                                \
      t->y += r * t->y_pixel;                                \
      if (t->residual) t->residual += r * t->residual_pixel; \
    }                                                        \
  }

/* The functions for tiles, by number of pixels, for one and for two blocks of output channels.
 * There is a table for pixels that are next to each other, one for other pixels, and one for planar
 * images. NULL means that there is no function for this number of pixels. */
extern GB(tile_function) *const GB(near_tiles)[][GB_TILE + 1], *const GB(far_tiles)[][GB_TILE + 1];
extern GB(tile_function) *const GB(first_tiles)[][GB_TILE + 1];

/* Computes the sums of n consecutive pixels in tiles of about the same length, which is at most
 * `longest`. */
GK_INLINE void GB(tiles_side_by_side)(GB(tile) *t, ptrdiff_t n, GB(tile_function) *const *tiles,
                                      const uint32_t longest) {
  uint32_t count, r; /* 32 bits, because a processor divides such numbers faster */
  for (uint32_t left = (uint32_t)n; left > 0; left -= count * r) {
    const uint32_t times = (left + longest - 1) / longest;
    r = left / times;
    count = times - left % times; /* the other tiles have one pixel more */
    if (!tiles[r]) {
      for (r = left < longest ? left : longest; !tiles[r];) --r;
      count = left / r;
    }
    tiles[r](t, count);
  }
}

/* Applies the activation of a step to n floats. */
void GB(activate)(float *p, ptrdiff_t n, const gb_step *s);
/* Does the part of `finish` that is missing, for n consecutive pixels, which are in the first-level
 * cache. */
void GB(finish_pixels)(const GB(tile) *t, ptrdiff_t n, float *y, const float *residual);
/* Computes n consecutive pixels completely, for some blocks of channels. Changes `t`, because
 * copying it would take as long as a tile. */
void GB(pixels)(GB(tile) *t, ptrdiff_t n, GB(tile_function) *const *tiles, int blocks);
