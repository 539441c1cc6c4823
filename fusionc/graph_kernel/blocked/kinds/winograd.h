/* 3×3 convolutions with Winograd's algorithm. Images and weights are transformed to points, the
 * products at each point are added up over all channels, and the sums are transformed back. Tiles
 * of pixels are transformed together:
 *
 *   F(4×4, 3×3): tiles of 6×6 pixels give 4×4 results with 36 products instead of 144
 *   F(2×2, 3×3): tiles of 4×4 pixels give 2×2 results with 16 products instead of 36; this has
 *                fewer weights, which is better for small images
 *   stride 2:    tiles of 5×5 pixels give 2×2 results with 25 products instead of 36: in each
 *                direction, the outer elements of a kernel are multiplied with every second pixel,
 *                which is F(2, 2), and the middle element is multiplied with the other pixels
 *
 * P is the number of points that a tile has in each direction. See A. Lavin, S. Gray, Fast
 * Algorithms for Convolutional Neural Networks, 2015.
 *
 * Intermediate numbers are up to 100 times as large as results. So the error may be larger than
 * that of a direct convolution, by a few units in the last place of the largest result. A number
 * that is not finite would reach all pixels of its tile; therefore such tiles are computed again,
 * directly. */
#ifndef GB_WINOGRAD_TILES
#define GB_WINOGRAD_TILES
/* The bytes of a core's second-level cache that a task uses: first for the points of pixels and
 * products, then for weights and their points. (Weights are read again until all their points are
 * computed.) The processors on which this was measured have a second-level cache of 1 MiB or
 * more. */
enum { GB_OF_POINTS = 720 << 10, GB_OF_TRANSFORMED = 250 << 10 };
/* Generated macros describe tiles with P points in each direction: GB_PIXELS_OF(P) is the number of
 * results in each direction, GB_STRIDE_OF(P) is the stride of the convolution, and GB_KERNEL_OF(P)
 * is the number of points that the weights have in each direction. With P = 5, two points have the
 * same weights. */
#define GB_KERNEL_POINTS(P) (GB_KERNEL_OF(P) * GB_KERNEL_OF(P)) /* all points of the weights */

/* The number of tiles that a task transforms at once. */
static inline __attribute__((unused)) ptrdiff_t gb_tiles_at_once(ptrdiff_t vector, ptrdiff_t tile,
                                                                 ptrdiff_t channels, int P) {
  enum { GB_MOST_TILES = 28 }; /* for tiles with 4×4 results */
  const ptrdiff_t fit = GB_OF_POINTS / (P * P * 4 * (channels + 2 * vector));
  const ptrdiff_t most = GB_MOST_TILES * 16 / (GB_PIXELS_OF(P) * GB_PIXELS_OF(P));
  return fit > most ? most : fit < tile / 2 ? tile / 2 : fit;
}
#endif

#ifdef GB_V
/* Transforms images and weights to the points of tiles, and transforms sums at the points back to
 * pixels. The head of this file explains the algorithm.
 *
 * In each direction, each of the first two points needs only one outer element of the kernel. The
 * point at a number and the point at the negative number share most of their sums. So these two are
 * neighbours: then two rows of weights can be computed almost independently of the other rows. */
#define GB_ROWS_OF(P) ((P) == 6 ? 2 : 4) /* rows of points of weights that are computed together */

GK_INLINE void GB(to_points)(const int P, const GB(vec) *d, ptrdiff_t step, GB(vec) *to,
                             ptrdiff_t to_step) {
  const GB(vec) d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step];
  if (P == 5) {
    to[0] = d0 - d2;
    to[to_step] = d[4 * step] - d2;
    to[2 * to_step] = d2;
    to[3 * to_step] = d1;
    to[4 * to_step] = d3;
    return;
  }
  if (P == 4) {
    to[0] = d0 - d2;
    to[to_step] = d1 - d3;
    to[2 * to_step] = d1 + d2;
    to[3 * to_step] = d2 - d1;
    return;
  }
  const GB(vec) d4 = d[4 * step], d5 = d[5 * step];
  const GB(vec) a = GB_MADD(d2, GB(all)(-4.0f), d4), b = GB_MADD(d1, GB(all)(-4.0f), d3),
                e = d4 - d2, f = 2.0f * (d3 - d1);
  to[0] = GB_MADD(d2, GB(all)(-5.0f), GB_MADD(d0, GB(all)(4.0f), d4));
  to[to_step] = GB_MADD(d3, GB(all)(-5.0f), GB_MADD(d1, GB(all)(4.0f), d5));
  to[2 * to_step] = a + b;
  to[3 * to_step] = a - b;
  to[4 * to_step] = e + f;
  to[5 * to_step] = e - f;
}

GK_INLINE void GB(from_points)(const int P, const GB(vec) *m, ptrdiff_t step, GB(vec) *to,
                               ptrdiff_t to_step) {
  if (P == 5) {
    to[0] = m[0] + m[2 * step] + m[3 * step];
    to[to_step] = m[2 * step] + m[step] + m[4 * step];
    return;
  }
  const GB(vec) a = m[2 * step] + m[3 * step], b = m[2 * step] - m[3 * step];
  if (P == 4) {
    to[0] = m[0] + a;
    to[to_step] = b - m[step];
    return;
  }
  const GB(vec) e = m[4 * step] + m[5 * step], f = m[4 * step] - m[5 * step];
  to[0] = m[0] + a + e;
  to[to_step] = GB_MADD(f, GB(all)(2.0f), b);
  to[2 * to_step] = GB_MADD(e, GB(all)(4.0f), a);
  to[3 * to_step] = GB_MADD(f, GB(all)(8.0f), b) + m[step];
}

/* Transforms three elements of a kernel, in one direction, to the points of a tile. */
GK_INLINE void GB(kernel_to_points)(const int P, GB(vec) a, GB(vec) b, GB(vec) c, GB(vec) *to) {
  to[1] = c;
  if (P == 5) {
    to[0] = a;
    to[2] = a + c;
    to[3] = b;
    return;
  }
  const GB(vec) part = GB(all)(P == 4 ? 0.5f : -1.0f / 6.0f), even = (a + c) * part, odd = b * part;
  to[0] = P == 4 ? a : a * 0.25f;
  to[2] = even + odd;
  to[3] = even - odd;
  if (P == 6) {
    const GB(vec) sum = GB_MADD(a, GB(all)(1.0f / 24.0f), c * (1.0f / 6.0f)),
                  other = b * (1.0f / 12.0f);
    to[4] = sum + other;
    to[5] = sum - other;
  }
}

/* The number of the weights' point that belongs to a point of a tile. For the number of all points
 * of a tile, it is the number of all points of the weights. */
GK_INLINE ptrdiff_t GB(kernel_point)(const int P, ptrdiff_t point) {
  static const int8_t of_five[] = {0, 1, 2, 3, 3, 4};
  return P == 5 ? 4 * of_five[point / 5] + of_five[point % 5] : point;
}

/* Transforms the weights of some input blocks, and of one or two output blocks, to `count` rows of
 * points. `step` is the distance between points. */
GK_INLINE void GB(weights_to_rows)(const int P, const int first, const int count, const float *w,
                                   float *to, ptrdiff_t step, ptrdiff_t blocks, int is_two) {
  const int own = GB_KERNEL_OF(P);
  const ptrdiff_t row = (1 + is_two) * GB_V;
  for (ptrdiff_t i = 0; i < blocks * GB_V; ++i, w += 9 * row)
    for (ptrdiff_t o = 0; o < row; o += GB_V, to += GB_V) {
      GB(vec) points[6], columns[3][6];
      for (int n = 0; n < 3; ++n) {
        const float *kernel = w + n * row + o;
        GB(kernel_to_points)(P, GB(load)(kernel), GB(load)(kernel + 3 * row),
                             GB(load)(kernel + 6 * row), columns[n]);
      }
      for (int r = 0; r < count; ++r) {
        GB(kernel_to_points)(P, columns[0][first + r], columns[1][first + r], columns[2][first + r],
                             points);
        for (int n = 0; n < own; ++n) *(GB(vec) *)(to + (r * own + n) * step) = points[n];
      }
    }
}

/* Transforms weights to GB_ROWS_OF(P) rows of points, beginning with row `first`. */
GK_INLINE void GB(weights_to_points)(const int P, ptrdiff_t first, const float *w, float *to,
                                     ptrdiff_t step, ptrdiff_t blocks, int is_two) {
  if (P < 6) GB(weights_to_rows)(P, 0, 4, w, to, step, blocks, is_two);
  else if (first == 0) GB(weights_to_rows)(6, 0, 2, w, to, step, blocks, is_two);
  else if (first == 2) GB(weights_to_rows)(6, 2, 2, w, to, step, blocks, is_two);
  else GB(weights_to_rows)(6, 4, 2, w, to, step, blocks, is_two);
}

/* Transforms all packed weights. This is done if many tasks need the result, which is then kept. */
void GB(transform_weights)(const float *w, float *to, const gb_call *c) {
  const ptrdiff_t in_blocks = c->in.blocks, out_blocks = c->out.blocks;
  const int P = c->step->tile_points;
  const ptrdiff_t all = in_blocks * GB_V * GB_V, kernel_points = GB_KERNEL_POINTS(P);
  for (ptrdiff_t pair = 0; pair < out_blocks; pair += 2) {
    const int is_two = pair + 1 < out_blocks;
    const float *from = w + 9 * pair * all;
    float *at = to + kernel_points * pair * all;
    const ptrdiff_t step = (1 + is_two) * all;
    if (P == 4) GB(weights_to_points)(4, 0, from, at, step, in_blocks, is_two);
    else if (P == 5) GB(weights_to_points)(5, 0, from, at, step, in_blocks, is_two);
    else
      for (ptrdiff_t first = 0; first < 6; first += GB_ROWS_OF(6))
        GB(weights_to_points)(6, first, from, at + 6 * first * step, step, in_blocks, is_two);
  }
}

/* Transforms one tile of one block to its points. `step` is the distance between points. Pixels
 * beyond the border of zeros count as zero, too. */
GK_INLINE void GB(tile_to_points)(const int P, const gb_call *c, const float *image, ptrdiff_t y,
                                  ptrdiff_t x, float *to, ptrdiff_t step) {
  const ptrdiff_t top = y * GB_STRIDE_OF(P) - c->step->pads[0],
                  left = x * GB_STRIDE_OF(P) - c->step->pads[1];
  GB(vec) kept[36], rows[36], points[6];
  const float *from = image + top * c->in.row + left * GB_V;
  ptrdiff_t row = c->in.row;
  if (top < 0 || left < 0 || top + P > c->in.height || left + P > c->in.width) {
    for (int i = 0; i < P; ++i)
      for (int j = 0; j < P; ++j) {
        const int is_inside =
            top + i >= 0 && left + j >= 0 && top + i < c->in.height && left + j < c->in.width;
        kept[i * P + j] = is_inside ? GB(load)(from + i * row + j * GB_V) : (GB(vec)){0};
      }
    from = (const float *)kept;
    row = P * GB_V;
  }
  for (int i = 0; i < P; ++i)
    GB(to_points)(P, (const GB(vec) *)(from + i * row), 1, rows + P * i, 1);
  for (int j = 0; j < P; ++j) {
    GB(to_points)(P, rows + j, P, points, 1);
    for (int i = 0; i < P; ++i) {
      *(GB(vec) *)(to + (i * P + j) * step) = points[i];
      /* Prefetched for the next tiles, because a core can have only a few pending writes. */
      __builtin_prefetch(to + (i * P + j) * step + 2 * GB_V, 1);
    }
  }
}

/* Computes the pixels of a tile again without the algorithm, from weights that are not
 * transformed. */
static __attribute__((noinline)) void GB(again)(const int P, const gb_call *c, ptrdiff_t n,
                                                ptrdiff_t block, ptrdiff_t y, ptrdiff_t x,
                                                GB(vec) *sums) {
  const gb_step *s = c->step;
  const ptrdiff_t in = c->in.channels, M = GB_PIXELS_OF(P), S = GB_STRIDE_OF(P);
  for (ptrdiff_t v = 0; v < GB_V && block * GB_V + v < c->out.channels; ++v)
    for (ptrdiff_t p = 0; p < M * M; ++p) {
      const ptrdiff_t out = block * GB_V + v;
      float sum = c->bias ? c->bias[out] : 0.0f;
      for (ptrdiff_t i = 0; i < in; ++i)
        for (ptrdiff_t k = 0; k < 9; ++k) {
          const ptrdiff_t row = (y + p / M) * S + k / 3 - s->pads[0],
                          column = (x + p % M) * S + k % 3 - s->pads[1];
          if (row < 0 || column < 0 || row >= c->in.height || column >= c->in.width) continue;
          const float *image = c->in.data + n * c->in.image + i / GB_V * c->in.plane;
          sum += GB(packed)((float *)(uintptr_t)c->weights, block, c->out.blocks,
                            c->in.blocks * GB_V * 9, 9 * i + k)[v] *
                 image[row * c->in.row + column * GB_V + i % GB_V];
        }
      ((float *)&sums[p])[v] = sum;
    }
}

/* Transforms sums at the points of a tile to pixels of the image. */
GK_INLINE void GB(tile_from_points)(const int P, const gb_call *c, const float *m, ptrdiff_t step,
                                    ptrdiff_t n, ptrdiff_t block, ptrdiff_t y, ptrdiff_t x) {
  const int M = GB_PIXELS_OF(P);
  const GB(vec) *points = (const GB(vec) *)m;
  const GB(vec) start = c->bias ? GB(load)(c->bias + block * GB_V) : (GB(vec)){0};
  GB(vec) columns[24], sums[16], sum = {0};
  step /= GB_V;
  for (int j = 0; j < P; ++j) GB(from_points)(P, points + j * step, P * step, columns + j, P);
  for (int i = 0; i < M; ++i) GB(from_points)(P, columns + P * i, 1, sums + M * i, 1);
  for (int p = 0; p < M * M; ++p) {
    sums[p] += start;
    sum += sums[p] * 0.0f;
  }
  float bad = 0.0f;
  for (int v = 0; v < GB_V; ++v) bad += ((const float *)&sum)[v];
  if (bad != 0.0f) GB(again)(P, c, n, block, y, x, sums);
  const ptrdiff_t height = c->out.height - y < M ? c->out.height - y : M;
  const ptrdiff_t width = c->out.width - x < M ? c->out.width - x : M;
  const int32_t *lanes = GB(lanes_of)(c, block);
  GB(tile) t = {.y_pixel = GB_V, .residual_pixel = GB_V, .step = c->step};
  for (ptrdiff_t i = 0; i < height; ++i) {
    float *to =
        c->out.data + n * c->out.image + block * c->out.plane + (y + i) * c->out.row + x * GB_V;
    const float *residual = NULL;
    if (c->in2.data)
      residual =
          c->in2.data + n * c->in2.image + block * c->in2.plane + (y + i) * c->in2.row + x * GB_V;
    if (width == M) GB(finish)(&t, sums + M * i, to, residual, lanes, M);
    else
      for (ptrdiff_t j = 0; j < width; ++j)
        GB(finish)(&t, sums + M * i + j, to + j * GB_V, residual ? residual + j * GB_V : NULL,
                   lanes, 1);
  }
}

/* Does the rest of what `finish` does, for all pixels of adjacent tiles. */
static void GB(finish_tiles)(const int M, const gb_call *c, ptrdiff_t first, ptrdiff_t count,
                             ptrdiff_t block) {
  const ptrdiff_t across = (c->out.width + M - 1) / M, down = (c->out.height + M - 1) / M;
  const GB(tile) t = {.y_pixel = GB_V, .residual_pixel = GB_V, .step = c->step};
  for (ptrdiff_t k = 0, run; k < count; k += run) {
    const ptrdiff_t tile = first + k, x = M * (tile % across), y = M * (tile / across % down);
    const ptrdiff_t below = c->out.height - y < M ? c->out.height : y + M;
    run = across - tile % across < count - k ? across - tile % across : count - k;
    GB(place) at = {x,
                    x + M * run > c->out.width ? c->out.width - x : M * run,
                    y,
                    block,
                    tile / (across * down),
                    0,
                    0};
    for (; at.row < below; ++at.row)
      GB(finish_pixels)(&t, at.count, GB(at)(&c->out, &at),
                        c->in2.data ? GB(at)(&c->in2, &at) : NULL);
  }
}

/* The number of input blocks whose weights a task transforms at once. */
GK_INLINE ptrdiff_t GB(transformed_at_once)(ptrdiff_t blocks, int P) {
  const ptrdiff_t points = GB_ROWS_OF(P) * GB_KERNEL_OF(P) + 9,
                  size = points * 2 * GB_V * GB_V * (ptrdiff_t)sizeof(float);
  const ptrdiff_t most = GB_OF_TRANSFORMED / size;
  const ptrdiff_t times = (blocks + most - 1) / most;
  return (blocks + times - 1) / times;
}

/* The distance between points. It is never a number of whole pages: then all points would share the
 * same few sets of a cache. */
GK_INLINE ptrdiff_t GB(point_step)(ptrdiff_t blocks) { return (2 * GB_V * blocks + 1) * GB_V; }

/* The floats of scratch memory that a task needs. */
ptrdiff_t GB(winograd_floats)(const gb_call *c) {
  const ptrdiff_t channels = c->in.blocks * GB_V;
  const int P = c->step->tile_points;
  const ptrdiff_t of_weights =
      GB_ROWS_OF(P) * GB_KERNEL_OF(P) * GB(point_step)(GB(transformed_at_once)(channels / GB_V, P));
  return GB_CHUNK + P * P * gb_tiles_at_once(GB_V, GB_TILE, channels, P) * (channels + 2 * GB_V) +
         of_weights;
}

/* Computes units. A unit is some tiles (at most c->part), and some of the blocks of output
 * channels, which are divided into c->strip parts. */
GK_INLINE void GB(winograd_of)(const int P, const gb_call *c, ptrdiff_t unit, ptrdiff_t end,
                               float *scratch) {
  const ptrdiff_t all_points = P * P, kernel_points = GB_KERNEL_POINTS(P), blocks = c->in.blocks,
                  M = GB_PIXELS_OF(P);
  const ptrdiff_t across = (c->out.width + M - 1) / M, down = (c->out.height + M - 1) / M,
                  most = c->part;
  const ptrdiff_t all = c->out.batch * across * down, pairs = (c->out.blocks + 1) / 2;
  const ptrdiff_t in_step = blocks * most * GB_V, out_step = 2 * most * GB_V;
  const ptrdiff_t at_once = c->derived ? blocks : GB(transformed_at_once)(blocks, P);
  gb_chunk *kept = (gb_chunk *)(void *)scratch;
  float *points = scratch + GB_CHUNK, *sums = points + all_points * in_step,
        *transformed = sums + all_points * out_step;
  for (; unit < end; ++unit) {
    const ptrdiff_t chunk = unit / c->strip, part = unit % c->strip, first = all * chunk / c->rows;
    const ptrdiff_t count = all * (chunk + 1) / c->rows - first,
                    tiles = (count + GB_TILE - 1) / GB_TILE;
    for (ptrdiff_t b = 0; b < blocks && chunk != kept->chunk; ++b)
      for (ptrdiff_t k = 0; k < count; ++k) {
        const ptrdiff_t tile = first + k, n = tile / (across * down), y = tile / across % down,
                        x = tile % across;
        const float *image = c->in.data + n * c->in.image + b * c->in.plane;
        GB(tile_to_points)(P, c, image, M * y, M * x, points + (b * most + k) * GB_V, in_step);
      }
    kept->chunk = chunk;
    for (ptrdiff_t pair = pairs * part / c->strip; pair < pairs * (part + 1) / c->strip; ++pair) {
      const int is_two = 2 * pair + 1 < c->out.blocks;
      /* the floats of the weights of an input channel, and those of a block of input channels */
      const ptrdiff_t row = (1 + is_two) * GB_V, block = GB_V * row;
      for (ptrdiff_t b = 0; b < blocks; b += at_once) {
        const ptrdiff_t n = blocks - b < at_once ? blocks - b : at_once,
                        steps = n * GB_V / GB_STEP * tiles;
        const ptrdiff_t step = c->derived ? blocks * block : GB(point_step)(at_once);
        /* the floats that are prefetched at each point */
        const ptrdiff_t read = c->derived ? n * block : 9 * n * block / all_points;
        const ptrdiff_t lines = (read / GB_LINE + steps - 1) / steps,
                        asked = (lines > GB_ASKED ? GB_ASKED : lines) * GB_LINE;
        const float *raw = c->weights + 2 * pair * blocks * 9 * GB_V * GB_V + 9 * b * block;
        const float *w =
            c->derived ? c->derived + 2 * pair * blocks * kernel_points * GB_V * GB_V : transformed;
        for (ptrdiff_t p = 0; p < all_points; ++p) {
          const ptrdiff_t before =
              c->derived || P < 6 ? 0 : p / (P * GB_ROWS_OF(P)) * (P * GB_ROWS_OF(P));
          if (!c->derived && p == before)
            GB(weights_to_points)(P, p / P, raw, transformed, step, n, is_two);
          GB(tile) t = {
              .x = points + p * in_step + b * most * GB_V,
              .x_pixel = GB_V,
              .x_block = most * GB_V,
              .w = w + (GB(kernel_point)(P, p) - before) * step,
              .ahead = c->derived ? w + GB(kernel_point)(P, p + 1) * step
                                  /* weights that are transformed in each run come from memory */
                                  : raw + 9 * n * block + p * steps * asked,
              .ahead_step = asked,
              .blocks = n,
              .last = b + n == blocks ? GB(last_of)(c->in.channels) : GB_V,
              .rows = 1,
              .columns = 1,
              .is_begun = b > 0,
              .y = sums + p * out_step,
              .y_pixel = GB_V,
              .y_block = most * GB_V,
          };
          GB(pixels)(&t, count, GB(near_tiles)[is_two], 1 + is_two);
        }
      }
      for (int o = 0; o <= is_two; ++o) {
        for (ptrdiff_t k = 0; k < count; ++k) {
          const ptrdiff_t tile = first + k, n = tile / (across * down), y = tile / across % down,
                          x = tile % across;
          GB(tile_from_points)(P, c, sums + (o * most + k) * GB_V, out_step, n, 2 * pair + o, M * y,
                               M * x);
        }
        if (!GB(is_finished)(c->step)) GB(finish_tiles)((int)M, c, first, count, 2 * pair + o);
      }
    }
  }
}

void GB(winograd)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  if (c->step->tile_points == 4) GB(winograd_of)(4, c, unit, end, scratch);
  else if (c->step->tile_points == 5) GB(winograd_of)(5, c, unit, end, scratch);
  else GB(winograd_of)(6, c, unit, end, scratch);
}

#else
/* A chunk is the tiles that are transformed together. If there are few chunks, the blocks of each
 * chunk are divided among several units. Then other threads can take units from a thread whose core
 * is busy, although they must transform the tiles once more. */
static void gb_divide_winograd(const gb_width *width, gb_call *c) {
  enum { GB_FOR_EACH = 8 }; /* the number of units for each thread */
  const ptrdiff_t pixels = GB_PIXELS_OF(c->step->tile_points),
                  across = (c->out.width + pixels - 1) / pixels;
  const ptrdiff_t down = (c->out.height + pixels - 1) / pixels;
  const ptrdiff_t most = gb_tiles_at_once(width->vector, width->tile, c->in.blocks * width->vector,
                                          c->step->tile_points),
                  pairs = (c->out.blocks + 1) / 2;
  const ptrdiff_t tiles = c->out.batch * down * across;
  c->part = most;
  c->rows = (tiles + most - 1) / most;
  c->strip = c->rows ? (GB_FOR_EACH * gb_threads() + c->rows - 1) / c->rows : 1;
  if (c->strip > pairs) c->strip = pairs;
  c->units = c->rows * c->strip;
  c->keeps_chunk = 1;
}

/* Gives step k its transformed weights, which are up to 4 times as large as its weights. If a run
 * needs the weights only once, they are transformed in each run instead, because reading the larger
 * transformed weights would take longer. Weights are also transformed in each run if there is no
 * memory for the result. */
static void gb_give_transformed(gb_state *state, int k, gb_call *c) {
  const ptrdiff_t kernel_points = GB_KERNEL_POINTS(c->step->tile_points), v = state->width->vector;
  float *made = state->derived[k];
  if (c->rows <= 1) return;
  if (!made) {
    if (!(made = gb_allocate(kernel_points * c->in.blocks * c->out.blocks * v * v *
                             (ptrdiff_t)sizeof *made)))
      return;
    state->width->derives[GB_WINOGRAD](state->weights[k], made, c);
    made = gb_keep_derived(state, k, made);
  }
  c->derived = made;
}

static double gb_winograd_ns(const gb_width *width, const gb_call *c) {
  const int points = c->step->tile_points, pixels = GB_PIXELS_OF(points);
  return gb_made(c) * (double)(points * points) / (pixels * pixels) * (double)c->in.channels /
         gb_speed(width);
}
#endif
