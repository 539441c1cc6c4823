/* Convolutions of 3×3 by Winograd's F(4×4, 3×3), where tiles of 6×6 give 4×4 pixels with 36 products instead of 144, or
 * by F(2×2, 3×3), where tiles of 4×4 give 2×2 with 16 instead of 36: with fewer weights, for small images. M is how many
 * pixels a tile has in each direction.
 *
 * A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks, 2015. Input and weights are transformed, the
 * products of all channels are summed up, and the sums are transformed back. Numbers grow by up to 100 on the way, so
 * results are as exact as those of the direct way to within a few more units in the last place of the largest; where
 * something is not finite, it would reach all pixels of a tile, so these are computed again the direct way. */
#define GB_MOST_TILES 28 /* of 4×4 pixels */

GK_INLINE void GB(to_points)(const int M, const GB(vec) * d, ptrdiff_t step, GB(vec) * to, ptrdiff_t to_step) {
  const GB(vec) d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step];
  if (M == 2) {
    to[0] = d0 - d2;
    to[to_step] = d1 + d2;
    to[2 * to_step] = d2 - d1;
    to[3 * to_step] = d1 - d3;
    return;
  }
  const GB(vec) d4 = d[4 * step], d5 = d[5 * step];
  const GB(vec) a = GB_MADD(d2, GB(all)(-4.0f), d4), b = GB_MADD(d1, GB(all)(-4.0f), d3), e = d4 - d2, f = 2.0f * (d3 - d1);
  to[0] = GB_MADD(d2, GB(all)(-5.0f), GB_MADD(d0, GB(all)(4.0f), d4));
  to[to_step] = a + b;
  to[2 * to_step] = a - b;
  to[3 * to_step] = e + f;
  to[4 * to_step] = e - f;
  to[5 * to_step] = GB_MADD(d3, GB(all)(-5.0f), GB_MADD(d1, GB(all)(4.0f), d5));
}

GK_INLINE void GB(from_points)(const int M, const GB(vec) * m, ptrdiff_t step, GB(vec) * to, ptrdiff_t to_step) {
  const GB(vec) a = m[step] + m[2 * step], b = m[step] - m[2 * step];
  if (M == 2) {
    to[0] = m[0] + a;
    to[to_step] = b - m[3 * step];
    return;
  }
  const GB(vec) e = m[3 * step] + m[4 * step], f = m[3 * step] - m[4 * step];
  to[0] = m[0] + a + e;
  to[to_step] = GB_MADD(f, GB(all)(2.0f), b);
  to[2 * to_step] = GB_MADD(e, GB(all)(4.0f), a);
  to[3 * to_step] = GB_MADD(f, GB(all)(8.0f), b) + m[5 * step];
}

/* Weights [out, in, 3, 3] at the points of a tile, in double precision and rounded once. */
static void GB(pack_winograd)(const float *w, float *to, ptrdiff_t in, ptrdiff_t out, int M) {
  static const double of_two[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
  static const double of_four[6][3] = {{0.25, 0, 0},          {-1.0 / 6, -1.0 / 6, -1.0 / 6}, {-1.0 / 6, 1.0 / 6, -1.0 / 6},
                                       {1.0 / 24, 1.0 / 12, 1.0 / 6}, {1.0 / 24, -1.0 / 12, 1.0 / 6}, {0, 0, 1}};
  const double(*g)[3] = M == 2 ? of_two : of_four;
  const ptrdiff_t in_blocks = (in + GB_V - 1) / GB_V, out_blocks = (out + GB_V - 1) / GB_V;
  const ptrdiff_t point = in_blocks * GB_V, sides = M + 2, all = sides * sides * point;
  for (ptrdiff_t o = 0; o < out; ++o)
    for (ptrdiff_t i = 0; i < in; ++i) {
      const float *k = w + (o * in + i) * 9;
      double rows[6][3];
      for (int r = 0; r < sides; ++r)
        for (int c = 0; c < 3; ++c) rows[r][c] = g[r][0] * k[c] + g[r][1] * k[3 + c] + g[r][2] * k[6 + c];
      for (int r = 0; r < sides; ++r)
        for (int c = 0; c < sides; ++c)
          GB(packed)(to, o / GB_V, out_blocks, all, (r * sides + c) * point + i)[o % GB_V] =
              (float)(g[c][0] * rows[r][0] + g[c][1] * rows[r][1] + g[c][2] * rows[r][2]);
    }
}

/* One tile of one block to its points, `step` apart. Pixels beyond the zeros around the image are zero, too. */
GK_INLINE void GB(tile_to_points)(const int M, const gb_call *c, const float *image, ptrdiff_t y, ptrdiff_t x, float *to,
                                  ptrdiff_t step) {
  const int sides = M + 2;
  const ptrdiff_t top = y - c->step->pads[0], left = x - c->step->pads[1];
  GB(vec) kept[36], rows[36], points[6];
  const float *from = image + top * c->in.row + left * GB_V;
  ptrdiff_t row = c->in.row;
  if (top < 0 || left < 0 || top + sides > c->in.height || left + sides > c->in.width) {
    for (int i = 0; i < sides; ++i)
      for (int j = 0; j < sides; ++j) {
        const int is_inside = top + i >= 0 && left + j >= 0 && top + i < c->in.height && left + j < c->in.width;
        kept[i * sides + j] = is_inside ? GB(load)(from + i * row + j * GB_V) : (GB(vec)){0};
      }
    from = (const float *)kept;
    row = sides * GB_V;
  }
  for (int i = 0; i < sides; ++i) GB(to_points)(M, (const GB(vec) *)(from + i * row), 1, rows + sides * i, 1);
  for (int j = 0; j < sides; ++j) {
    GB(to_points)(M, rows + j, sides, points, 1);
    for (int i = 0; i < sides; ++i) *(GB(vec) *)(to + (i * sides + j) * step) = points[i];
  }
}

/* The pixels of a tile the direct way, from weights that are not transformed. */
static __attribute__((noinline)) void GB(again)(const int M, const gb_call *c, ptrdiff_t n, ptrdiff_t block, ptrdiff_t y, ptrdiff_t x, GB(vec) * sums) {
  const gb_step *s = c->step;
  const ptrdiff_t in = c->in.channels;
  for (ptrdiff_t v = 0; v < GB_V && block * GB_V + v < c->out.channels; ++v)
    for (ptrdiff_t p = 0; p < M * M; ++p) {
      const ptrdiff_t out = block * GB_V + v;
      float sum = c->bias ? c->bias[out] : 0.0f;
      for (ptrdiff_t i = 0; i < in; ++i)
        for (ptrdiff_t k = 0; k < 9; ++k) {
          const ptrdiff_t row = y + p / M + k / 3 - s->pads[0], column = x + p % M + k % 3 - s->pads[1];
          if (row < 0 || column < 0 || row >= c->in.height || column >= c->in.width) continue;
          const float *image = c->in.data + n * c->in.image + i / GB_V * c->in.plane;
          sum += c->tensor[(out * in + i) * 9 + k] * image[row * c->in.row + column * GB_V + i % GB_V];
        }
      ((float *)&sums[p])[v] = sum;
    }
}

/* Sums at the points of a tile to pixels of the image. */
GK_INLINE void GB(tile_from_points)(const int M, const gb_call *c, const float *m, ptrdiff_t step, ptrdiff_t n,
                                    ptrdiff_t block, ptrdiff_t y, ptrdiff_t x) {
  const int sides = M + 2;
  const GB(vec) *points = (const GB(vec) *)m;
  const GB(vec) start = c->bias ? GB(load)(c->bias + block * GB_V) : (GB(vec)){0};
  GB(vec) columns[24], sums[16], sum = {0};
  step /= GB_V;
  for (int j = 0; j < sides; ++j) GB(from_points)(M, points + j * step, sides * step, columns + j, sides);
  for (int i = 0; i < M; ++i) GB(from_points)(M, columns + sides * i, 1, sums + M * i, 1);
  for (int p = 0; p < M * M; ++p) {
    sums[p] += start;
    sum += sums[p] * 0.0f;
  }
  float bad = 0.0f;
  for (int v = 0; v < GB_V; ++v) bad += ((const float *)&sum)[v];
  if (bad != 0.0f) GB(again)(M, c, n, block, y, x, sums);
  const ptrdiff_t height = c->out.height - y < M ? c->out.height - y : M;
  const ptrdiff_t width = c->out.width - x < M ? c->out.width - x : M;
  const int32_t *lanes = GB(lanes_of)(c, block);
  GB(tile) t = {.y_pixel = GB_V, .residual_pixel = GB_V, .step = c->step};
  for (ptrdiff_t i = 0; i < height; ++i) {
    float *to = c->out.data + n * c->out.image + block * c->out.plane + (y + i) * c->out.row + x * GB_V;
    const float *residual = NULL;
    if (c->in2.data)
      residual = c->in2.data + n * c->in2.image + block * c->in2.plane + (y + i) * c->in2.row + x * GB_V;
    if (width == M) GB(finish)(&t, sums + M * i, to, residual, lanes, M);
    else
      for (ptrdiff_t j = 0; j < width; ++j)
        GB(finish)(&t, sums + M * i + j, to + j * GB_V, residual ? residual + j * GB_V : NULL, lanes, 1);
  }
}

/* What `finish` leaves to do: of all pixels of tiles that lie side by side. */
static void GB(finish_tiles)(const int M, const gb_call *c, ptrdiff_t first, ptrdiff_t count, ptrdiff_t block) {
  const ptrdiff_t across = (c->out.width + M - 1) / M, down = (c->out.height + M - 1) / M;
  const GB(tile) t = {.y_pixel = GB_V, .residual_pixel = GB_V, .step = c->step};
  for (ptrdiff_t k = 0, run; k < count; k += run) {
    const ptrdiff_t tile = first + k, x = M * (tile % across), y = M * (tile / across % down);
    const ptrdiff_t below = c->out.height - y < M ? c->out.height : y + M;
    run = across - tile % across < count - k ? across - tile % across : count - k;
    GB(place) at = {x, x + M * run > c->out.width ? c->out.width - x : M * run, y, block, tile / (across * down), 0, 0};
    for (; at.row < below; ++at.row)
      GB(finish_pixels)(&t, at.count, GB(at)(&c->out, &at), c->in2.data ? GB(at)(&c->in2, &at) : NULL);
  }
}

/* How many tiles a task transforms at once: as many as leave the cache of a core half empty. */
static ptrdiff_t GB(tiles_at_once)(ptrdiff_t channels, int M) {
  const ptrdiff_t fit = (720 << 10) / ((M + 2) * (M + 2) * 4 * (channels + 2 * GB_V)), most = GB_MOST_TILES * 16 / (M * M);
  return fit > most ? most : fit < GB_TILE / 2 ? GB_TILE / 2 : fit;
}

/* Units are some tiles by some of the blocks of channels out; c->part tiles a unit, c->strip parts of the blocks. */
GK_INLINE void GB(winograd_of)(const int M, const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const ptrdiff_t all_points = (M + 2) * (M + 2);
  const ptrdiff_t across = (c->out.width + M - 1) / M, down = (c->out.height + M - 1) / M, most = c->part;
  const ptrdiff_t all = c->out.batch * across * down, pairs = (c->out.blocks + 1) / 2;
  const ptrdiff_t in_step = c->in.blocks * most * GB_V, out_step = 2 * most * GB_V;
  const ptrdiff_t channels = c->in.blocks * GB_V;
  float *points = scratch, *sums = scratch + all_points * in_step;
  for (ptrdiff_t former = -1; unit < end; ++unit) {
    const ptrdiff_t chunk = unit / c->strip, part = unit % c->strip, first = all * chunk / c->rows;
    const ptrdiff_t count = all * (chunk + 1) / c->rows - first;
    for (ptrdiff_t b = 0; b < c->in.blocks && chunk != former; ++b)
      for (ptrdiff_t k = 0; k < count; ++k) {
        const ptrdiff_t tile = first + k, n = tile / (across * down), y = tile / across % down, x = tile % across;
        const float *image = c->in.data + n * c->in.image + b * c->in.plane;
        GB(tile_to_points)(M, c, image, M * y, M * x, points + (b * most + k) * GB_V, in_step);
      }
    former = chunk;
    for (ptrdiff_t pair = pairs * part / c->strip; pair < pairs * (part + 1) / c->strip; ++pair) {
      const int is_two = 2 * pair + 1 < c->out.blocks;
      const ptrdiff_t ahead = (1 + is_two) * GB_STEP * GB_V / GB_LINE / ((count + GB_TILE - 1) / GB_TILE); /* lines of a call */
      for (ptrdiff_t p = 0; p < all_points; ++p) {
        const float *w = c->weights + (2 * pair * all_points + p * (1 + is_two)) * channels * GB_V;
        GB(tile) t = {
            .x = points + p * in_step,
            .x_pixel = GB_V,
            .x_block = most * GB_V,
            .w = w,
            .ahead = w + (1 + is_two) * channels * GB_V, /* those of the next point: they come from memory in each run */
            .ahead_step = ahead < 1 ? GB_LINE : ahead > GB_ASKED ? GB_ASKED * GB_LINE : ahead * GB_LINE,
            .blocks = c->in.blocks,
            .last = GB(last_of)(c->in.channels),
            .rows = 1,
            .columns = 1,
            .y = sums + p * out_step,
            .y_pixel = GB_V,
            .y_block = most * GB_V,
        };
        GB(pixels)(&t, count, GB(tiles)[GB(near) + is_two], 1 + is_two);
      }
      for (int o = 0; o <= is_two; ++o) {
        for (ptrdiff_t k = 0; k < count; ++k) {
          const ptrdiff_t tile = first + k, n = tile / (across * down), y = tile / across % down, x = tile % across;
          GB(tile_from_points)(M, c, sums + (o * most + k) * GB_V, out_step, n, 2 * pair + o, M * y, M * x);
        }
        if (!GB(is_finished)(c->step)) GB(finish_tiles)(M, c, first, count, 2 * pair + o);
      }
    }
  }
}

static void GB(winograd)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  if (c->step->flag == 2) GB(winograd_of)(2, c, unit, end, scratch);
  else GB(winograd_of)(4, c, unit, end, scratch);
}
