/* Convolutions in bfloat16 of images with few channels, which are read directly from the tensor.
 * The windows of 16 pixels become a matrix. In it, each row of a window takes a multiple of four
 * numbers, and is padded with zeros. A part is some tiles of an image, with all output channels. */
#ifndef GB_WINDOWS
#define GB_WINDOWS
enum { GB_OF_ROW = 4, GB_TILE_NUMBERS = 32 };

/* gb_row_numbers: how many numbers a row of a window takes. gb_window_blocks: how many blocks of 32
 * numbers a window takes. */
static inline __attribute__((unused)) ptrdiff_t gb_row_numbers(const gb_step *s) {
  return (s->kernel[1] + GB_OF_ROW - 1) / GB_OF_ROW * GB_OF_ROW;
}
static inline __attribute__((unused)) ptrdiff_t gb_window_blocks(const gb_step *s, ptrdiff_t in) {
  return (in * s->kernel[0] * gb_row_numbers(s) + GB_TILE_NUMBERS - 1) / GB_TILE_NUMBERS;
}
#endif

#ifdef GB_V
#if GB_V == 16
/* How many numbers of an image's row 16 windows read, rounded up to whole vectors. */
GK_INLINE ptrdiff_t gb_taken_numbers(const gb_step *s) {
  return ((GB_ROWS - 1) * s->stride[1] + gb_row_numbers(s) + GB_V - 1) / GB_V * GB_V;
}

/* Writes the rows of 16 windows in bfloat16, one after the other. All rows must be written before
 * any row is read: the processor stalls if it reads across two vectors that were just written. */
static void gb_narrow_rows(const gb_call *c, gb_narrow_place at, ptrdiff_t image, uint16_t *to) {
  const gb_step *s = c->step;
  const ptrdiff_t n = gb_taken_numbers(s);
  for (ptrdiff_t channel = 0; channel < c->in.channels; ++channel)
    for (ptrdiff_t i = 0; i < s->kernel[0]; ++i, to += n) {
      const float *x = c->in.data + image * c->in.image + channel * c->in.plane +
                       (at.row * s->stride[0] - s->pads[0] + i * s->dilation[0]) * c->in.row +
                       at.column * s->stride[1] - s->pads[1];
      for (ptrdiff_t k = 0; k < n; k += GB_V)
        *(gb_half_pixel *)(void *)(to + k) = gb_narrowed(GB(load_loose)(x + k));
    }
}

/* Writes the windows of a tile as [block of 32 numbers][pixel][number of the block]. */
static void gb_take_windows(const gb_call *c, const uint16_t *rows, uint16_t *to) {
  const gb_step *s = c->step;
  const ptrdiff_t taken = gb_row_numbers(s), stride = s->stride[1], n = gb_taken_numbers(s);
  const ptrdiff_t filled = s->kernel[1] % GB_OF_ROW;
  const uint64_t last = filled ? ((uint64_t)1 << 16 * filled) - 1 : ~(uint64_t)0;
  ptrdiff_t number = 0;
  for (ptrdiff_t i = 0; i < c->in.channels * s->kernel[0]; ++i, rows += n)
    for (ptrdiff_t k = 0; k < taken; k += GB_OF_ROW, number += GB_OF_ROW) {
      const uint64_t kept = k + GB_OF_ROW == taken ? last : ~(uint64_t)0;
      uint16_t *y = to + number / GB_TILE_NUMBERS * GB_ROWS * GB_TILE_NUMBERS +
                    number % GB_TILE_NUMBERS;
#pragma GCC unroll 16
      for (int r = 0; r < GB_ROWS; ++r) {
        uint64_t four;
        memcpy(&four, rows + r * stride + k, sizeof four);
        four &= kept;
        memcpy(y + r * GB_TILE_NUMBERS, &four, sizeof four);
      }
    }
}

/* The floats of scratch memory of a thread: for sums, for the windows of two tiles, and for the
 * rows of these windows. */
ptrdiff_t GB(window_floats)(const gb_call *c) {
  const gb_step *s = c->step;
  return 4 * GB_SUMS_OF_TILE +
         2 * gb_window_blocks(s, c->in.channels) * GB_WEIGHTS_OF_TILE +
         c->in.channels * s->kernel[0] * gb_taken_numbers(s);
}

void GB(convolve_first)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_step *s = c->step;
  const ptrdiff_t blocks = gb_window_blocks(s, c->in.channels), tiles = gb_tiles_of_image(c),
                  pairs = (c->out.channels + GB_PAIR - 1) / GB_PAIR;
  float *windows = scratch + 4 * GB_SUMS_OF_TILE, *second = windows + blocks * GB_WEIGHTS_OF_TILE;
  uint16_t *rows = (uint16_t *)(void *)(second + blocks * GB_WEIGHTS_OF_TILE),
           *other_rows = rows + c->in.channels * s->kernel[0] * gb_taken_numbers(s);
  gb_tile_shapes former;
  gb_narrow_sum t = {
      .pixel = 64,
      .block = 1024,
      .blocks = blocks,
      .rows = 1,
      .columns = 1,
      .sums = scratch,
  };
  memset(windows, 0, (size_t)(2 * blocks * GB_WEIGHTS_OF_TILE) * sizeof *windows);
  if (c->has_tiles) former = gb_begin_tiles();
  for (; unit < end; ++unit) {
    const ptrdiff_t image = unit / c->rows, first = unit % c->rows * c->part,
                    last = first + c->part < tiles ? first + c->part : tiles;
    for (ptrdiff_t tile = first; tile < last; tile += 2) {
      const int are_two = tile + 1 < last;
      const gb_narrow_place one = gb_narrow_place_of(c, tile),
                            other = gb_narrow_place_of(c, are_two ? tile + 1 : tile);
      gb_narrow_rows(c, one, image, rows);
      if (are_two) gb_narrow_rows(c, other, image, other_rows);
      gb_take_windows(c, rows, (uint16_t *)(void *)windows);
      if (are_two) gb_take_windows(c, other_rows, (uint16_t *)(void *)second);
      t.x = (const char *)windows;
      t.x2 = are_two ? (const char *)second : NULL;
      for (ptrdiff_t pair = 0; pair < pairs; ++pair) {
        const gb_narrow_end finish = gb_end_of(c, pair);
        t.weights = (const char *)c->weights + pair * blocks * 2 * 1024;
        t.bias = c->bias ? c->bias + pair * GB_PAIR : NULL;
        if (c->has_tiles) gb_sum_tiles(&t);
        else gb_sum_by_vectors(&t);
        gb_finish_tile(c, &finish, one, t.sums, image, pair);
        if (are_two) gb_finish_tile(c, &finish, other, t.sums + 2 * GB_SUMS_OF_TILE, image, pair);
      }
    }
  }
  if (c->has_tiles) gb_load_shapes(&former);
}

void GB(pack_windows)(const float *w, float *to, const gb_step *s, ptrdiff_t in, ptrdiff_t out) {
  const ptrdiff_t rows = s->kernel[0], columns = s->kernel[1], taken = gb_row_numbers(s),
                  blocks = gb_window_blocks(s, in);
  for (ptrdiff_t o = 0; o < out; ++o)
    for (ptrdiff_t i = 0; i < in * rows; ++i)
      for (ptrdiff_t j = 0; j < columns; ++j)
        *gb_narrow_packed(to, o / GB_PAIR, blocks, 1, 0, o, i * taken + j) =
            gb_narrow_weight(w[(o * in * rows + i) * columns + j]);
}
#endif

#else
static ptrdiff_t gb_window_weights(const gb_width *width, const gb_step *s, ptrdiff_t in,
                                   ptrdiff_t out) {
  return gb_window_blocks(s, in) * width->vector * gb_rounded(out, 2 * width->vector);
}

static void gb_divide_windows(const gb_width *width, gb_call *c) {
  enum { GB_TILES_OF_PART = 4 };
  const ptrdiff_t tiles = c->out.height * ((c->out.width + width->vector - 1) / width->vector);
  c->part = GB_TILES_OF_PART;
  c->rows = (tiles + c->part - 1) / c->part;
  c->strip = 1;
  c->units = c->out.batch * c->rows;
}
#endif
