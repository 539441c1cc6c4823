/* Convolutions of 3×3 by Winograd's F(4×4, 3×3), where tiles of 6×6 give 4×4 pixels with 36 products instead of 144, or
 * by F(2×2, 3×3), where tiles of 4×4 give 2×2 with 16 instead of 36: with fewer weights, for small images. With a stride of
 * 2, tiles of 5×5 give 2×2 with 25 instead of 36: in each direction the outer elements of a kernel meet every second pixel,
 * which is F(2, 2), and the middle one meets the others. P is how many points a tile has in each direction.
 *
 * A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks, 2015. Input and weights are transformed, the
 * products of all channels are summed up, and the sums are transformed back. Numbers grow by up to 100 on the way, so
 * results are as exact as those of the direct way to within a few more units in the last place of the largest; where
 * something is not finite, it would reach all pixels of a tile, so these are computed again the direct way. */
#define GB_MOST_TILES 28 /* of 4×4 pixels */

/* The pixels of a tile the direct way, from weights that are not transformed. */
static __attribute__((noinline)) void GB(again)(const int P, const gb_call *c, ptrdiff_t n, ptrdiff_t block, ptrdiff_t y,
                                                ptrdiff_t x, GB(vec) * sums) {
  const gb_step *s = c->step;
  const ptrdiff_t in = c->in.channels, M = GB_PIXELS_OF(P), S = GB_STRIDE_OF(P);
  for (ptrdiff_t v = 0; v < GB_V && block * GB_V + v < c->out.channels; ++v)
    for (ptrdiff_t p = 0; p < M * M; ++p) {
      const ptrdiff_t out = block * GB_V + v;
      float sum = c->bias ? c->bias[out] : 0.0f;
      for (ptrdiff_t i = 0; i < in; ++i)
        for (ptrdiff_t k = 0; k < 9; ++k) {
          const ptrdiff_t row = (y + p / M) * S + k / 3 - s->pads[0], column = (x + p % M) * S + k % 3 - s->pads[1];
          if (row < 0 || column < 0 || row >= c->in.height || column >= c->in.width) continue;
          const float *image = c->in.data + n * c->in.image + i / GB_V * c->in.plane;
          sum += c->tensor[(out * in + i) * 9 + k] * image[row * c->in.row + column * GB_V + i % GB_V];
        }
      ((float *)&sums[p])[v] = sum;
    }
}

/* Sums at the points of a tile to pixels of the image. */
GK_INLINE void GB(tile_from_points)(const int P, const gb_call *c, const float *m, ptrdiff_t step, ptrdiff_t n,
                                    ptrdiff_t block, ptrdiff_t y, ptrdiff_t x) {
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

/* How many tiles a task transforms at once. */
ptrdiff_t GB(tiles_at_once)(ptrdiff_t channels, int P) {
  const ptrdiff_t fit = GB_OF_POINTS / (P * P * 4 * (channels + 2 * GB_V));
  const ptrdiff_t most = GB_MOST_TILES * 16 / (GB_PIXELS_OF(P) * GB_PIXELS_OF(P));
  return fit > most ? most : fit < GB_TILE / 2 ? GB_TILE / 2 : fit;
}

/* A task transforms the weights of so many blocks in at once. */
GK_INLINE ptrdiff_t GB(transformed_at_once)(ptrdiff_t blocks, int P) {
  const ptrdiff_t points = GB_ROWS_OF(P) * GB_KERNEL_OF(P) + 9, size = points * 2 * GB_V * GB_V * (ptrdiff_t)sizeof(float);
  const ptrdiff_t most = GB_OF_TRANSFORMED / size;
  const ptrdiff_t times = (blocks + most - 1) / most;
  return (blocks + times - 1) / times;
}

/* How far apart these lie: at a distance of whole pages all points would take the same few places of a cache. */
GK_INLINE ptrdiff_t GB(point_step)(ptrdiff_t blocks) { return (2 * GB_V * blocks + 1) * GB_V; }

/* How many floats of scratch memory a task needs. */
ptrdiff_t GB(winograd_floats)(ptrdiff_t channels, int P) {
  const ptrdiff_t of_weights = GB_ROWS_OF(P) * GB_KERNEL_OF(P) * GB(point_step)(GB(transformed_at_once)(channels / GB_V, P));
  return GB_CHUNK + P * P * GB(tiles_at_once)(channels, P) * (channels + 2 * GB_V) + of_weights;
}

/* Units are some tiles by some of the blocks of channels out; at most c->part tiles a unit, c->strip parts of the blocks. */
GK_INLINE void GB(winograd_of)(const int P, const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const ptrdiff_t all_points = P * P, kernel_points = GB_KERNEL_POINTS(P), blocks = c->in.blocks, M = GB_PIXELS_OF(P);
  const ptrdiff_t across = (c->out.width + M - 1) / M, down = (c->out.height + M - 1) / M, most = c->part;
  const ptrdiff_t all = c->out.batch * across * down, pairs = (c->out.blocks + 1) / 2;
  const ptrdiff_t in_step = blocks * most * GB_V, out_step = 2 * most * GB_V;
  const ptrdiff_t at_once = c->derived ? blocks : GB(transformed_at_once)(blocks, P);
  gb_chunk *kept = (gb_chunk *)(void *)scratch;
  float *points = scratch + GB_CHUNK, *sums = points + all_points * in_step, *transformed = sums + all_points * out_step;
  for (; unit < end; ++unit) {
    const ptrdiff_t chunk = unit / c->strip, part = unit % c->strip, first = all * chunk / c->rows;
    const ptrdiff_t count = all * (chunk + 1) / c->rows - first, tiles = (count + GB_TILE - 1) / GB_TILE;
    for (ptrdiff_t b = 0; b < blocks && chunk != kept->chunk; ++b)
      for (ptrdiff_t k = 0; k < count; ++k) {
        const ptrdiff_t tile = first + k, n = tile / (across * down), y = tile / across % down, x = tile % across;
        const float *image = c->in.data + n * c->in.image + b * c->in.plane;
        GB(tile_to_points)(P, c, image, M * y, M * x, points + (b * most + k) * GB_V, in_step);
      }
    kept->chunk = chunk;
    for (ptrdiff_t pair = pairs * part / c->strip; pair < pairs * (part + 1) / c->strip; ++pair) {
      const int is_two = 2 * pair + 1 < c->out.blocks;
      const ptrdiff_t row = (1 + is_two) * GB_V, block = GB_V * row; /* floats for a channel in, and for a block of these */
      for (ptrdiff_t b = 0; b < blocks; b += at_once) {
        const ptrdiff_t n = blocks - b < at_once ? blocks - b : at_once, steps = n * GB_V / GB_STEP * tiles;
        const ptrdiff_t step = c->derived ? blocks * block : GB(point_step)(at_once);
        const ptrdiff_t read = c->derived ? n * block : 9 * n * block / all_points; /* floats that a point asks for */
        const ptrdiff_t lines = (read / GB_LINE + steps - 1) / steps, asked = (lines > GB_ASKED ? GB_ASKED : lines) * GB_LINE;
        const float *raw = c->weights + 2 * pair * blocks * 9 * GB_V * GB_V + 9 * b * block;
        const float *w = c->derived ? c->derived + 2 * pair * blocks * kernel_points * GB_V * GB_V : transformed;
        for (ptrdiff_t p = 0; p < all_points; ++p) {
          const ptrdiff_t before = c->derived || P < 6 ? 0 : p / (P * GB_ROWS_OF(P)) * (P * GB_ROWS_OF(P));
          if (!c->derived && p == before) GB(weights_to_points)(P, p / P, raw, transformed, step, n, is_two);
          GB(tile) t = {
              .x = points + p * in_step + b * most * GB_V,
              .x_pixel = GB_V,
              .x_block = most * GB_V,
              .w = w + (GB(kernel_point)(P, p) - before) * step,
              .ahead = c->derived ? w + GB(kernel_point)(P, p + 1) * step
                                  : raw + 9 * n * block + p * steps * asked, /* from memory in each run */
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
          const ptrdiff_t tile = first + k, n = tile / (across * down), y = tile / across % down, x = tile % across;
          GB(tile_from_points)(P, c, sums + (o * most + k) * GB_V, out_step, n, 2 * pair + o, M * y, M * x);
        }
        if (!GB(is_finished)(c->step)) GB(finish_tiles)((int)M, c, first, count, 2 * pair + o);
      }
    }
  }
}

void GB(winograd)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  if (c->step->flag == 4) GB(winograd_of)(4, c, unit, end, scratch);
  else if (c->step->flag == 5) GB(winograd_of)(5, c, unit, end, scratch);
  else GB(winograd_of)(6, c, unit, end, scratch);
}
