/* Convolutions and products of bfloat16 with sums of float32, over tiles of 16 pixels by 16 channels
 * out. A tile reads 32 channels of 16 pixels, the same distance apart. Pixels of a row with the zeros
 * around it lie side by side, so that a tile may go on in the next row, where windows are one pixel
 * apart: what is made in between is not written.
 *
 * Weights are [pair of blocks out][block in][row][column][block out of the pair][pair of channels
 * in][channel out][channel in of the pair]. */
#ifdef GB_V
#if GB_V == 16
enum { GB_ROWS = 16, GB_SUMS_OF_TILE = GB_ROWS * GB_V, GB_WEIGHTS_OF_TILE = GB_ROWS * GB_V };

/* What the sums of two tiles of pixels by two blocks of channels out are made of. Distances are in
 * bytes. */
typedef struct {
  const char *x, *x2; /* the first pixel of each tile; x2 is NULL where there is one tile */
  ptrdiff_t pixel, block, row, column;
  ptrdiff_t blocks, rows, columns;
  const char *weights;
  const float *bias; /* NULL: none */
  float *sums;       /* [tile][block out][pixel][channel] */
} gb_narrow_sum;

#define GB_LOAD_TILE(number, p, apart)                   \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #number \
                   :                                     \
                   : "r"(p), "r"((ptrdiff_t)(apart))     \
                   : "memory")
#define GB_STORE_TILE(number, p)                          \
  __asm__ volatile("tilestored %%tmm" #number ", (%0,%1,1)" \
                   :                                      \
                   : "r"(p), "r"((ptrdiff_t)64)           \
                   : "memory")
#define GB_ZERO_TILE(number) __asm__ volatile("tilezero %%tmm" #number :)
#define GB_ADD_PRODUCTS(weights, pixels, sums) \
  __asm__ volatile("tdpbf16ps %%tmm" #weights ", %%tmm" #pixels ", %%tmm" #sums :)

/* By tiles of the processor: 0 to 3 are sums, 4 and 5 pixels, 6 and 7 weights. */
static void gb_sum_tiles(const gb_narrow_sum *t) {
  const char *block = t->x, *w = t->weights;
  const ptrdiff_t second = t->x2 ? t->x2 - t->x : 0;
  if (t->bias) {
    GB_LOAD_TILE(0, t->bias, 0);
    GB_LOAD_TILE(1, t->bias + GB_V, 0);
    if (second) {
      GB_LOAD_TILE(2, t->bias, 0);
      GB_LOAD_TILE(3, t->bias + GB_V, 0);
    }
  } else {
    GB_ZERO_TILE(0);
    GB_ZERO_TILE(1);
    GB_ZERO_TILE(2);
    GB_ZERO_TILE(3);
  }
  for (ptrdiff_t b = 0; b < t->blocks; ++b, block += t->block) {
    const char *row = block;
    for (ptrdiff_t i = 0; i < t->rows; ++i, row += t->row) {
      const char *x = row;
      for (ptrdiff_t j = 0; j < t->columns; ++j, x += t->column, w += 2 * 1024) {
        GB_LOAD_TILE(6, w, 64);
        GB_LOAD_TILE(4, x, t->pixel);
        GB_ADD_PRODUCTS(6, 4, 0);
        GB_LOAD_TILE(7, w + 1024, 64);
        GB_ADD_PRODUCTS(7, 4, 1);
        if (!second) continue;
        GB_LOAD_TILE(5, x + second, t->pixel);
        GB_ADD_PRODUCTS(6, 5, 2);
        GB_ADD_PRODUCTS(7, 5, 3);
      }
    }
  }
  GB_STORE_TILE(0, t->sums);
  GB_STORE_TILE(1, t->sums + GB_SUMS_OF_TILE);
  if (!second) return;
  GB_STORE_TILE(2, t->sums + 2 * GB_SUMS_OF_TILE);
  GB_STORE_TILE(3, t->sums + 3 * GB_SUMS_OF_TILE);
}

#define GB_ADD_PAIRS(sum, x, w) __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w))

/* Eight pixels, by vectors. */
static void gb_sum_pixels(const gb_narrow_sum *t, const char *block, float *sums) {
  enum { R = 8 };
  GB(vec) s0[R], s1[R], b0 = {0}, b1 = {0};
  const char *w = t->weights;
  if (t->bias) {
    b0 = GB(load)(t->bias);
    b1 = GB(load)(t->bias + GB_V);
  }
  GB_FOR_PIXELS(r) {
    s0[r] = b0;
    s1[r] = b1;
  }
  for (ptrdiff_t b = 0; b < t->blocks; ++b, block += t->block) {
    const char *row = block;
    for (ptrdiff_t i = 0; i < t->rows; ++i, row += t->row) {
      const char *x = row;
      for (ptrdiff_t j = 0; j < t->columns; ++j, x += t->column, w += 2 * 1024)
        for (ptrdiff_t pair = 0; pair < GB_ROWS; ++pair) {
          const GB(vec) w0 = GB(load)((const float *)(const void *)(w + 64 * pair)),
                        w1 = GB(load)((const float *)(const void *)(w + 64 * pair + 1024));
          GB_FOR_PIXELS(r) {
            const GB(vec) both =
                GB(all)(*(const float *)(const void *)(x + r * t->pixel + 4 * pair));
            GB_ADD_PAIRS(s0[r], both, w0);
            GB_ADD_PAIRS(s1[r], both, w1);
          }
        }
    }
  }
  GB_FOR_PIXELS(r) {
    *(GB(vec) *)(sums + r * GB_V) = s0[r];
    *(GB(vec) *)(sums + r * GB_V + GB_SUMS_OF_TILE) = s1[r];
  }
}

static void gb_sum_by_vectors(const gb_narrow_sum *t) {
  for (int tile = 0; tile < (t->x2 ? 2 : 1); ++tile)
    for (int half = 0; half < 2; ++half)
      gb_sum_pixels(t, (tile ? t->x2 : t->x) + half * 8 * t->pixel,
                    t->sums + tile * 2 * GB_SUMS_OF_TILE + half * 8 * GB_V);
}

/* Pixels of two blocks of channels in an image, of floats or narrow numbers. */
typedef struct {
  float *first, *second; /* of narrow numbers both are one block */
  int is_narrow;
} gb_two_blocks;

GK_INLINE gb_two_blocks gb_two_blocks_at(const gb_image *image, ptrdiff_t number, ptrdiff_t pair,
                                         ptrdiff_t row, ptrdiff_t column) {
  gb_two_blocks at = {.is_narrow = image->bytes == 2};
  at.first = image->data + number * image->image + (at.is_narrow ? 1 : 2) * pair * image->plane +
             row * image->row + column * image->pixel;
  at.second = at.first + (at.is_narrow ? GB_V / 2 : image->plane);
  return at;
}

/* Adds n pixels of an image to sums. */
static void gb_add_pixels(float *sums, const gb_image *image, ptrdiff_t number, ptrdiff_t pair,
                          ptrdiff_t row, ptrdiff_t column, ptrdiff_t n, int is_two) {
  const gb_two_blocks from = gb_two_blocks_at(image, number, pair, row, column);
  for (ptrdiff_t k = 0, at = 0; k < n * GB_V; k += GB_V, at += image->pixel) {
    *(GB(vec) *)(sums + k) +=
        from.is_narrow ? gb_widened(from.first + at) : GB(load_loose)(from.first + at);
    if (is_two)
      *(GB(vec) *)(sums + GB_SUMS_OF_TILE + k) +=
          from.is_narrow ? gb_widened(from.second + at) : GB(load_loose)(from.second + at);
  }
}

/* Writes n pixels. */
static void gb_write_pixels(const gb_call *c, const float *sums, ptrdiff_t number, ptrdiff_t pair,
                            ptrdiff_t row, ptrdiff_t column, ptrdiff_t n, int is_two) {
  const gb_two_blocks to = gb_two_blocks_at(&c->out, number, pair, row, column);
  const ptrdiff_t left = c->out.channels - pair * GB_PAIR;
  if (to.is_narrow) {
    const gb_narrow_pixel lanes = gb_narrow_lanes(left);
    for (ptrdiff_t k = 0; k < n * GB_V; k += GB_V)
      *(gb_narrow_pixel *)(to.first + k) =
          gb_narrowed_pair(GB(load)(sums + k), GB(load)(sums + GB_SUMS_OF_TILE + k)) & lanes;
    return;
  }
  for (int b = 0; b <= is_two; ++b) {
    const int32_t *lanes = GB(lanes_of)(c, 2 * pair + b);
    const GB(bits) kept = lanes ? *(const GB(bits) *)lanes : ~(GB(bits)){0};
    float *y = b ? to.second : to.first;
    for (ptrdiff_t k = 0; k < n * GB_V; k += GB_V, y += c->out.pixel)
      *(GB(loose) *)y = (GB(loose))((GB(bits))GB(load)(sums + b * GB_SUMS_OF_TILE + k) & kept);
  }
}

/* Where a tile of 16 pixels begins: it may be after the last column of a row. */
typedef struct {
  ptrdiff_t row, column, count; /* pixels of it, and what lies between rows */
} gb_narrow_place;

static gb_narrow_place gb_narrow_place_of(const gb_call *c, ptrdiff_t tile) {
  const ptrdiff_t width = c->out.width;
  if (c->is_flat) {
    const ptrdiff_t across = c->in.row / c->in.pixel, first = tile * GB_ROWS,
                    left = (c->out.height - 1) * across + width - first;
    return (gb_narrow_place){first / across, first % across, left < GB_ROWS ? left : GB_ROWS};
  }
  const ptrdiff_t across = (width + GB_ROWS - 1) / GB_ROWS, first = tile % across * GB_ROWS;
  return (gb_narrow_place){tile / across, first,
                           width - first < GB_ROWS ? width - first : GB_ROWS};
}

typedef void gb_narrow_run(const gb_call *c, float *sums, ptrdiff_t number, ptrdiff_t pair,
                           ptrdiff_t row, ptrdiff_t column, ptrdiff_t n, int is_two);

static void gb_add_residual(const gb_call *c, float *sums, ptrdiff_t number, ptrdiff_t pair,
                            ptrdiff_t row, ptrdiff_t column, ptrdiff_t n, int is_two) {
  gb_add_pixels(sums, &c->in2, number, pair, row, column, n, is_two);
}

static void gb_write_run(const gb_call *c, float *sums, ptrdiff_t number, ptrdiff_t pair,
                         ptrdiff_t row, ptrdiff_t column, ptrdiff_t n, int is_two) {
  gb_write_pixels(c, sums, number, pair, row, column, n, is_two);
}

/* Does something to each run of pixels of a tile that lie in a row. */
GK_INLINE void gb_for_runs(gb_narrow_run *run, const gb_call *c, gb_narrow_place at, float *sums,
                           ptrdiff_t number, ptrdiff_t pair, int is_two) {
  const ptrdiff_t width = c->out.width, across = c->is_flat ? c->in.row / c->in.pixel : width;
  for (ptrdiff_t done = 0, n; done < at.count; done += n) {
    const ptrdiff_t end = at.column < width ? width : across;
    n = end - at.column < at.count - done ? end - at.column : at.count - done;
    if (at.column < width)
      run(c, sums + done * GB_V, number, pair, at.row, at.column, n, is_two);
    at.column += n;
    if (at.column == across) {
      at.column = 0;
      ++at.row;
    }
  }
}

/* The sums of a tile become results. */
static void gb_finish_tile(const gb_call *c, gb_narrow_place at, float *sums, ptrdiff_t number,
                           ptrdiff_t pair, int is_two) {
  const gb_step *s = c->step;
  if (c->in2.data && !s->after) gb_for_runs(gb_add_residual, c, at, sums, number, pair, is_two);
  if (s->activation) {
    GB(activate)(sums, at.count * GB_V, s);
    if (is_two) GB(activate)(sums + GB_SUMS_OF_TILE, at.count * GB_V, s);
  }
  if (c->in2.data && s->after) gb_for_runs(gb_add_residual, c, at, sums, number, pair, is_two);
  gb_for_runs(gb_write_run, c, at, sums, number, pair, is_two);
}

/* Tiles in an image. */
GK_INLINE ptrdiff_t gb_tiles_of_image(const gb_call *c) {
  if (!c->is_flat) return c->out.height * ((c->out.width + GB_ROWS - 1) / GB_ROWS);
  return ((c->out.height - 1) * (c->in.row / c->in.pixel) + c->out.width + GB_ROWS - 1) / GB_ROWS;
}

static const char *gb_tile_pixels(const gb_call *c, gb_narrow_place at, ptrdiff_t number,
                                  ptrdiff_t block) {
  const gb_step *s = c->step;
  return (const char *)(c->in.data + number * c->in.image + block * c->in.plane +
                        (at.row * s->stride[0] - s->pads[0]) * c->in.row +
                        (at.column * s->stride[1] - s->pads[1]) * c->in.pixel);
}

/* The weights of a pair of blocks, those of each channel in multiplied by what its pixels would be.
 */
static const char *gb_multiply_narrow(const gb_call *c, ptrdiff_t image, const char *weights,
                                      float *to) {
  const GB(bits) order = {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7};
  (void)order;
  for (ptrdiff_t b = 0; b < c->in.blocks; ++b)
    for (ptrdiff_t k = 0; k < 2 * GB_ROWS; ++k, weights += 64, to += GB_V) {
      const ptrdiff_t channel = b * GB_PAIR + k % GB_ROWS * 2;
      const float *f = c->in3.data + image * c->in3.image + channel / GB_V * c->in3.plane +
                       channel % GB_V;
      const int is_there = channel < c->in.channels, are_two = channel + 1 < c->in.channels;
      const GB(bits) w = *(const GB(bits) *)(const void *)weights;
      const GB(vec) even = (GB(vec))(w << 16) * GB(all)(is_there ? f[0] : 0.0f),
                    odd = (GB(vec))(w & (int32_t)0xffff0000) * GB(all)(are_two ? f[1] : 0.0f);
      const GB(bits) low = __builtin_convertvector(gb_narrowed(even), GB(bits)),
                     high = __builtin_convertvector(gb_narrowed(odd), GB(bits));
      *(GB(bits) *)to = low | high << 16;
    }
  return (const char *)(to - c->in.blocks * 2 * GB_ROWS * GB_V);
}

/* Weights that are multiplied, and sums. */
ptrdiff_t GB(narrow_floats)(const gb_call *c) {
  const ptrdiff_t multiplied = c->step->in3 >= 0 ? c->in.blocks * 2 * GB_ROWS * GB_V : 0;
  return multiplied + 4 * GB_SUMS_OF_TILE;
}

/* How the processor's tiles are: 8 of 16 rows of 64 bytes. onnxruntime's own products do not load
 * theirs again, so that they come back after a task. */
typedef struct {
  uint8_t palette, start, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
} gb_tile_shapes;

static void gb_load_shapes(const gb_tile_shapes *shapes) {
  if (shapes->palette) __asm__ volatile("ldtilecfg %0" : : "m"(*shapes));
  else __asm__ volatile("tilerelease" :);
}

void GB(convolve_narrow)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  static const gb_tile_shapes shapes = {
      .palette = 1,
      .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
      .rows = {16, 16, 16, 16, 16, 16, 16, 16},
  };
  gb_tile_shapes former;
  const gb_step *s = c->step;
  const ptrdiff_t pairs_of_group = c->out.bytes == 2 ? c->out.blocks / s->group
                                                     : (c->out.blocks / s->group + 1) / 2,
                  pairs = pairs_of_group * s->group, in_blocks = c->in.blocks / s->group;
  const ptrdiff_t weights = s->kernel[0] * s->kernel[1] * in_blocks * 2 * 1024,
                  tiles = gb_tiles_of_image(c);
  ptrdiff_t image = -1, block = -1; /* of the weights that are multiplied */
  float *sums = scratch;
  const char *multiplied = NULL;
  if (c->has_tiles) {
    __asm__ volatile("sttilecfg %0" : "=m"(former));
    gb_load_shapes(&shapes);
  }
  gb_narrow_sum t = {
      .pixel = 4 * s->stride[1] * c->in.pixel,
      .block = 4 * c->in.plane,
      .row = 4 * s->dilation[0] * c->in.row,
      .column = 4 * s->dilation[1] * c->in.pixel,
      .blocks = in_blocks,
      .rows = s->kernel[0],
      .columns = s->kernel[1],
      .sums = sums,
  };
  for (GB(place) at = GB(place_of)(c, unit, pairs); unit < end;
       ++unit, GB(advance)(c, &at, pairs)) {
    const ptrdiff_t pair = at.block, first = at.part * c->part,
                    last = first + c->part < tiles ? first + c->part : tiles;
    const int is_two = c->out.channels - pair * GB_PAIR > GB_V;
    t.weights = (const char *)c->weights + pair * weights;
    t.bias = c->bias ? c->bias + pair * GB_PAIR : NULL;
    if (c->in3.data) {
      if (at.image != image || at.block != block)
        multiplied = gb_multiply_narrow(c, image = at.image, t.weights,
                                        scratch + 4 * GB_SUMS_OF_TILE);
      block = at.block;
      t.weights = multiplied;
    }
    for (ptrdiff_t tile = first; tile < last; tile += 2) {
      const ptrdiff_t from = pair / pairs_of_group * in_blocks;
      const gb_narrow_place one = gb_narrow_place_of(c, tile),
                            other = tile + 1 < last ? gb_narrow_place_of(c, tile + 1) : one;
      t.x = gb_tile_pixels(c, one, at.image, from);
      t.x2 = tile + 1 < last ? gb_tile_pixels(c, other, at.image, from) : NULL;
      if (c->has_tiles) gb_sum_tiles(&t);
      else gb_sum_by_vectors(&t);
      gb_finish_tile(c, one, sums, at.image, pair, is_two);
      if (t.x2)
        gb_finish_tile(c, other, sums + 2 * GB_SUMS_OF_TILE, at.image, pair, is_two);
    }
  }
  if (c->has_tiles) gb_load_shapes(&former);
}

/* Weights of one channel out and one in, at one element of a kernel. */
GK_INLINE uint16_t *gb_narrow_packed(float *to, ptrdiff_t pair, ptrdiff_t blocks, ptrdiff_t taps,
                                     ptrdiff_t tap, ptrdiff_t out, ptrdiff_t in) {
  const ptrdiff_t tile =
      ((pair * blocks + in / GB_PAIR) * taps + tap) * 2 + out % GB_PAIR / GB_V;
  return (uint16_t *)(void *)to + tile * 512 + in % GB_PAIR / 2 * GB_PAIR + out % GB_V * 2 + in % 2;
}

/* Of a product they are [in, out]. */
void GB(pack_narrow)(const float *w, float *to, const gb_step *s, ptrdiff_t in, ptrdiff_t out) {
  const ptrdiff_t taps = s->kernel[0] * s->kernel[1], own = in / s->group;
  const ptrdiff_t blocks = (own + GB_PAIR - 1) / GB_PAIR;
  const int is_product = s->op == GB_NARROW_PRODUCT;
  const ptrdiff_t of_out = is_product ? 1 : own * taps, of_in = is_product ? out : taps;
  for (ptrdiff_t o = 0; o < out; ++o)
    for (ptrdiff_t i = 0; i < own; ++i)
      for (ptrdiff_t k = 0; k < taps; ++k)
        *gb_narrow_packed(to, o / GB_PAIR, blocks, taps, k, o, i) =
            gb_narrow_weight(w[o * of_out + i * of_in + k]);
}
#endif

#else
static ptrdiff_t gb_narrow_weights(const gb_width *width, const gb_step *s, ptrdiff_t in,
                                   ptrdiff_t out) {
  const ptrdiff_t pair = 2 * width->vector;
  return gb_rounded(in / s->group, pair) * gb_rounded(out, pair) * s->kernel[0] * s->kernel[1] / 2;
}

/* Parts are some tiles of an image. Tiles go on in the next row where that makes them fewer. */
static void gb_divide_narrow(const gb_width *width, gb_call *c) {
  enum { GB_TILES_OF_PART = 8 };
  const gb_step *s = c->step;
  const ptrdiff_t rows = width->vector, across = c->in.row / c->in.pixel;
  const ptrdiff_t by_row = c->out.height * ((c->out.width + rows - 1) / rows),
                  by_pixel = ((c->out.height - 1) * across + c->out.width + rows - 1) / rows;
  c->is_flat = s->stride[0] + s->stride[1] == 2 && by_pixel <= by_row;
  const ptrdiff_t tiles = c->is_flat ? by_pixel : by_row,
                  pairs = c->out.bytes == 2 ? c->out.blocks
                                            : (c->out.blocks / s->group + 1) / 2 * s->group;
  c->part = GB_TILES_OF_PART;
  c->rows = (tiles + c->part - 1) / c->part;
  /* bytes of the image that a part reads */
  const ptrdiff_t read = c->in.channels / s->group * c->in.bytes * c->part * rows * s->stride[0] *
                         s->stride[1];
  const ptrdiff_t fit = GB_STRIP / read + 1;
  c->strip = fit < c->rows ? fit : c->rows;
  c->units = c->out.batch * pairs * c->rows;
}

static double gb_narrow_ns(const gb_width *width, const gb_call *c) {
  enum { GB_TILED = 500, GB_READ = 5 }; /* products, and weights, in a nanosecond */
  const double weights =
      gb_taps(c->step) * (double)c->in.channels / c->step->group * (double)c->out.channels;
  const double pixels = (double)c->out.batch * (double)c->out.height * (double)c->out.width;
  return pixels * weights / (c->has_tiles ? (double)GB_TILED : 2 * gb_speed(width)) +
         weights / GB_READ;
}
#endif
