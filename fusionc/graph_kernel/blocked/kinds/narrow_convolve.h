/* Convolutions and products of bfloat16 numbers with float32 sums, in tiles of 16 pixels by 16
 * output channels. A tile reads 32 channels of 16 pixels that are at equal distances. The pixels of
 * a row and the zeros around it are contiguous. So with a stride of 1, a tile may continue in the
 * next row; its results for the gap between the rows are not written.
 *
 * The order of weights is [pair of output blocks][input block][row][column][output block of the
 * pair][pair of input channels][output channel][input channel of the pair]. */
#ifdef GB_V
#if GB_V == 16
enum { GB_ROWS = 16, GB_SUMS_OF_TILE = GB_ROWS * GB_V, GB_WEIGHTS_OF_TILE = GB_ROWS * GB_V };

/* The operands of the sums for one or two tiles of pixels by two blocks of output channels.
 * Distances are in bytes. */
typedef struct {
  const char *x, *x2; /* the first pixel of each tile; x2 is NULL if there is only one tile */
  ptrdiff_t pixel, block, row, column;
  ptrdiff_t blocks, rows, columns;
  const char *weights;
  const float *bias; /* NULL: no bias */
  float *sums;       /* [tile][output block][pixel][channel] */
  /* the weights to prefetch, and how many of their cache lines each step prefetches */
  const char *ahead;
  ptrdiff_t asked;
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

/* Computes the sums with the processor's matrix tiles. Tiles 0 to 3 contain sums, tiles 4 and 5
 * pixels, and tiles 6 and 7 weights. */
static void gb_sum_tiles(gb_narrow_sum *t) {
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
        for (const char *end = t->ahead + 64 * t->asked; t->ahead < end; t->ahead += 64)
          __builtin_prefetch(t->ahead, 0, 2);
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

/* Computes the sums of eight pixels with vector instructions. */
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
            /* Moved as integers, because moving a NaN as a float could change it. */
            const GB(vec) both = (GB(vec))(
                (GB(bits)){0} + *(const int32_t *)(const void *)(x + r * t->pixel + 4 * pair));
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

/* The pixels of two blocks of channels in an image. */
typedef struct {
  float *first, *second; /* for bfloat16, the two halves of one block; NULL if there is none */
  ptrdiff_t pixel;
} gb_two_blocks;

GK_INLINE gb_two_blocks gb_two_blocks_at(const gb_image *image, ptrdiff_t number, ptrdiff_t pair,
                                         ptrdiff_t row, ptrdiff_t column) {
  const int is_narrow = image->bytes == 2;
  gb_two_blocks at = {.pixel = image->pixel};
  if (!image->data) return at;
  at.first = image->data + number * image->image + (is_narrow ? 1 : 2) * pair * image->plane +
             row * image->row + column * image->pixel;
  at.second = at.first + (is_narrow ? GB_V / 2 : image->plane);
  return at;
}

/* The place of results: in the image, or, as rows, in the tensor of a later store step. */
GK_INLINE gb_two_blocks gb_result_at(const gb_call *c, ptrdiff_t number, ptrdiff_t pair,
                                     ptrdiff_t row, ptrdiff_t column) {
  if (!c->is_stored) return gb_two_blocks_at(&c->out, number, pair, row, column);
  const gb_call *store = GB(store_of)(c, 2 * pair);
  float *first =
      store->tensor + column * store->in.channels + (2 * pair - store->first) * GB_V;
  return (gb_two_blocks){first, first + GB_V, store->in.channels};
}

/* How sums become results: the number types of the results and addends, the activation's operands,
 * and whether the activation takes few instructions. */
typedef enum { GB_NOTHING, GB_FLOATS, GB_NARROWS } gb_numbers;
typedef enum { GB_AS_IT_IS, GB_BOUNDED, GB_GATED } gb_ending;
typedef struct {
  gb_numbers out, added;
  gb_ending ending;
  GB(vec) a, b;                     /* operands of the activation */
  gb_narrow_pixel lanes;            /* masks of the lanes that are channels: of bfloat16 numbers, */
  GB(bits) lanes_first, lanes_second; /* and of floats */
  int is_two;                       /* whether there is a second block of channels */
} gb_narrow_end;

GK_INLINE GB(vec) gb_ended(GB(vec) x, const gb_narrow_end *e, const gb_ending ending) {
  if (ending == GB_BOUNDED) return GB_MIN(e->b, GB_MAX(e->a, x));
  if (ending == GB_GATED) return x * GB(within)(GB_MADD(x, e->a, e->b), 0.0f, 1.0f);
  return x;
}

GK_INLINE GB(vec) gb_added(GB(vec) x, const float *p, const gb_numbers added) {
  if (added == GB_NOTHING) return x;
  return x + (added == GB_NARROWS ? gb_widened(p) : GB(load_loose)(p));
}

/* Writes the results of n consecutive pixels. */
GK_INLINE void gb_end_pixels(const gb_narrow_end *e, const float *sums, gb_two_blocks y,
                             gb_two_blocks r, ptrdiff_t n, const gb_numbers out,
                             const gb_numbers added, const gb_ending ending) {
  const int is_two = e->is_two;
  for (ptrdiff_t k = 0; k < n; ++k, sums += GB_V, y.first += y.pixel, y.second += y.pixel) {
    GB(vec) low = GB(load)(sums), high = GB(load)(sums + GB_SUMS_OF_TILE);
    low = gb_ended(gb_added(low, r.first + k * r.pixel, added), e, ending);
    if (is_two) high = gb_added(high, r.second + k * r.pixel, added);
    high = gb_ended(high, e, ending);
    if (out == GB_NARROWS) {
      *(gb_narrow_pixel *)y.first = gb_narrowed_pair(low, high) & e->lanes;
    } else {
      *(GB(loose) *)y.first = (GB(loose))((GB(bits))low & e->lanes_first);
      if (is_two) *(GB(loose) *)y.second = (GB(loose))((GB(bits))high & e->lanes_second);
    }
  }
}

GK_INLINE void gb_end_by_ending(const gb_narrow_end *e, const float *sums, gb_two_blocks y,
                                gb_two_blocks r, ptrdiff_t n, const gb_numbers out,
                                const gb_numbers added) {
  if (e->ending == GB_AS_IT_IS) gb_end_pixels(e, sums, y, r, n, out, added, GB_AS_IT_IS);
  else if (e->ending == GB_BOUNDED) gb_end_pixels(e, sums, y, r, n, out, added, GB_BOUNDED);
  else gb_end_pixels(e, sums, y, r, n, out, added, GB_GATED);
}

GK_INLINE void gb_end_by_added(const gb_narrow_end *e, const float *sums, gb_two_blocks y,
                               gb_two_blocks r, ptrdiff_t n, const gb_numbers out) {
  if (e->added == GB_NOTHING) gb_end_by_ending(e, sums, y, r, n, out, GB_NOTHING);
  else if (e->added == GB_FLOATS) gb_end_by_ending(e, sums, y, r, n, out, GB_FLOATS);
  else gb_end_by_ending(e, sums, y, r, n, out, GB_NARROWS);
}

static void gb_end_run(const gb_narrow_end *e, const float *sums, gb_two_blocks y,
                       gb_two_blocks r, ptrdiff_t n) {
  if (e->out == GB_NARROWS) gb_end_by_added(e, sums, y, r, n, GB_NARROWS);
  else gb_end_by_added(e, sums, y, r, n, GB_FLOATS);
}

static gb_narrow_end gb_end_of(const gb_call *c, ptrdiff_t pair) {
  const gb_step *s = c->step;
  const ptrdiff_t left = c->out.channels - pair * GB_PAIR;
  gb_narrow_end e = {
      .out = c->out.bytes == 2 ? GB_NARROWS : GB_FLOATS,
      .added = !c->in2.data          ? GB_NOTHING
               : c->in2.bytes == 2 ? GB_NARROWS
                                   : GB_FLOATS,
      .lanes = gb_narrow_lanes(left),
      .is_two = left > GB_V,
  };
  const int32_t *first = GB(lanes_of)(c, 2 * pair), *second = GB(lanes_of)(c, 2 * pair + 1);
  e.lanes_first = first ? *(const GB(bits) *)first : ~(GB(bits)){0};
  e.lanes_second = second ? *(const GB(bits) *)second : ~(GB(bits)){0};
  if (!GB(is_finished)(s) || s->activation == GB_NONE) return e;
  const int is_bounded = s->activation <= GB_CLIP;
  e.ending = is_bounded ? GB_BOUNDED : GB_GATED;
  e.a = GB(all)(s->activation == GB_RELU         ? 0.0f
                : s->activation == GB_HARD_SWISH ? 1.0f / 6.0f
                                                 : s->alpha);
  e.b = GB(all)(s->activation == GB_RELU         ? INFINITY
                : s->activation == GB_HARD_SWISH ? 0.5f
                                                 : s->beta);
  return e;
}

/* The place where a tile of 16 pixels begins. It may be after the last column of a row. */
typedef struct {
  ptrdiff_t row, column, count; /* count: its pixels, including those in gaps between rows */
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

/* Adds addends to sums. Called if the activation that follows takes many instructions. */
static void gb_add_run(const gb_narrow_end *e, float *sums, gb_two_blocks r, ptrdiff_t n) {
  for (ptrdiff_t k = 0; k < n; ++k, sums += GB_V) {
    *(GB(vec) *)sums = gb_added(GB(load)(sums), r.first + k * r.pixel, e->added);
    if (e->is_two)
      *(GB(vec) *)(sums + GB_SUMS_OF_TILE) =
          gb_added(GB(load)(sums + GB_SUMS_OF_TILE), r.second + k * r.pixel, e->added);
  }
}

/* For each run of a tile's pixels that are in the same row: writes the results. If is_sum, only
 * adds the addends to the sums. */
GK_INLINE void gb_for_runs(const gb_call *c, const gb_narrow_end *e, gb_narrow_place at,
                           float *sums, ptrdiff_t number, ptrdiff_t pair, const int is_sum) {
  const ptrdiff_t width = c->out.width, across = c->is_flat ? c->in.row / c->in.pixel : width;
  for (ptrdiff_t done = 0, n; done < at.count; done += n) {
    const ptrdiff_t end = at.column < width ? width : across;
    n = end - at.column < at.count - done ? end - at.column : at.count - done;
    if (at.column < width) {
      const gb_two_blocks r = gb_two_blocks_at(&c->in2, number, pair, at.row, at.column);
      if (is_sum) gb_add_run(e, sums + done * GB_V, r, n);
      else
        gb_end_run(e, sums + done * GB_V,
                   gb_result_at(c, number, pair, at.row, at.column), r, n);
    }
    at.column += n;
    if (at.column == across) {
      at.column = 0;
      ++at.row;
    }
  }
}

/* Converts the sums of a tile to results. */
static void gb_finish_tile(const gb_call *c, const gb_narrow_end *end, gb_narrow_place at,
                           float *sums, ptrdiff_t number, ptrdiff_t pair) {
  const gb_step *s = c->step;
  gb_narrow_end e = *end;
  if (!GB(is_finished)(s)) {
    if (e.added && !s->after) {
      gb_for_runs(c, &e, at, sums, number, pair, 1);
      e.added = GB_NOTHING;
    }
    GB(activate)(sums, at.count * GB_V, s);
    if (e.is_two) GB(activate)(sums + GB_SUMS_OF_TILE, at.count * GB_V, s);
  }
  gb_for_runs(c, &e, at, sums, number, pair, 0);
}

/* The number of tiles in an image. */
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

/* Multiplies the weights of a pair of blocks: those of each input channel by the channel's number
 * in the pixel in3. Returns the products, which are written to `to`. */
static const char *gb_multiply_narrow(const gb_call *c, ptrdiff_t image, const char *weights,
                                      float *to) {
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

/* The floats of scratch memory of a thread: for multiplied weights, and for sums. */
ptrdiff_t GB(narrow_floats)(const gb_call *c) {
  const ptrdiff_t multiplied = c->step->in3 >= 0 ? c->in.blocks * 2 * GB_ROWS * GB_V : 0;
  return multiplied + 4 * GB_SUMS_OF_TILE;
}

/* The configuration of the processor's tiles: 8 tiles of 16 rows of 64 bytes. onnxruntime does not
 * load its own configuration again before its products. So each task restores the configuration at
 * its end. */
typedef struct {
  uint8_t palette, start, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
} gb_tile_shapes;

static void gb_load_shapes(const gb_tile_shapes *shapes) {
  if (shapes->palette) __asm__ volatile("ldtilecfg %0" : : "m"(*shapes));
  else __asm__ volatile("tilerelease" :);
}

/* Configures the tiles, and returns their former shapes. */
static gb_tile_shapes gb_begin_tiles(void) {
  static const gb_tile_shapes shapes = {
      .palette = 1,
      .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
      .rows = {16, 16, 16, 16, 16, 16, 16, 16},
  };
  gb_tile_shapes former;
  __asm__ volatile("sttilecfg %0" : "=m"(former));
  gb_load_shapes(&shapes);
  return former;
}

void GB(convolve_narrow)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  gb_tile_shapes former;
  const gb_step *s = c->step;
  const ptrdiff_t pairs_of_group = c->out.bytes == 2 ? c->out.blocks / s->group
                                                     : (c->out.blocks / s->group + 1) / 2,
                  pairs = pairs_of_group * s->group, in_blocks = c->in.blocks / s->group;
  const ptrdiff_t weights = s->kernel[0] * s->kernel[1] * in_blocks * 2 * 1024,
                  tiles = gb_tiles_of_image(c);
  ptrdiff_t image = -1, block = -1; /* the image and block of the multiplied weights */
  float *sums = scratch;
  const char *multiplied = NULL;
  if (c->has_tiles) former = gb_begin_tiles();
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
    const gb_narrow_end finish = gb_end_of(c, pair);
    t.weights = (const char *)c->weights + pair * weights;
    if (at.part == at.top || t.ahead == NULL) {
      /* Only the first strip prefetches the next weights: the others find them in the cache. */
      const ptrdiff_t bottom = at.top + c->strip < c->rows ? at.top + c->strip : c->rows;
      const ptrdiff_t times = ((bottom - at.top) * c->part + 1) / 2;
      t.ahead = t.weights + weights;
      t.asked = at.top == 0 && pair + 1 < pairs && times <= GB_ROWS ? (32 + times - 1) / times : 0;
    }
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
      gb_finish_tile(c, &finish, one, sums, at.image, pair);
      if (t.x2)
        gb_finish_tile(c, &finish, other, sums + 2 * GB_SUMS_OF_TILE, at.image, pair);
    }
  }
  if (c->has_tiles) gb_load_shapes(&former);
}

/* The place of the weight for one output channel, one input channel and one element of the kernel.
 * */
GK_INLINE uint16_t *gb_narrow_packed(float *to, ptrdiff_t pair, ptrdiff_t blocks, ptrdiff_t taps,
                                     ptrdiff_t tap, ptrdiff_t out, ptrdiff_t in) {
  const ptrdiff_t tile =
      ((pair * blocks + in / GB_PAIR) * taps + tap) * 2 + out % GB_PAIR / GB_V;
  return (uint16_t *)(void *)to + tile * 512 + in % GB_PAIR / 2 * GB_PAIR + out % GB_V * 2 + in % 2;
}

/* Packs weights. The weights of a product are [in, out]. */
void GB(pack_narrow)(const float *w, float *to, const gb_step *s, ptrdiff_t in, ptrdiff_t out) {
  /* the channels that the first of two joined images leaves empty in its last block */
  const ptrdiff_t empty = (GB_PAIR - s->joined % GB_PAIR) % GB_PAIR;
  const ptrdiff_t taps = s->kernel[0] * s->kernel[1],
                  blocks = (in / s->group + GB_PAIR - 1) / GB_PAIR;
  const ptrdiff_t own = in / s->group - (s->joined ? empty : 0);
  const int is_product = s->op == GB_NARROW_PRODUCT;
  const ptrdiff_t of_out = is_product ? 1 : own * taps, of_in = is_product ? out : taps;
  for (ptrdiff_t o = 0; o < out; ++o)
    for (ptrdiff_t i = 0; i < own; ++i)
      for (ptrdiff_t k = 0; k < taps; ++k)
        *gb_narrow_packed(to, o / GB_PAIR, blocks, taps, k, o,
                          s->joined && i >= s->joined ? i + empty : i) =
            gb_narrow_weight(w[o * of_out + i * of_in + k]);
}
#endif

#else
static ptrdiff_t gb_narrow_weights(const gb_width *width, const gb_step *s, ptrdiff_t in,
                                   ptrdiff_t out) {
  const ptrdiff_t pair = 2 * width->vector;
  return gb_rounded(in / s->group, pair) * gb_rounded(out, pair) * s->kernel[0] * s->kernel[1] / 2;
}

/* Divides a step into parts. A part is some tiles of an image. Tiles continue in the next row if
 * this makes fewer tiles. */
static void gb_divide_narrow(const gb_width *width, gb_call *c) {
  /* GB_NARROW_STRIP: the bytes of an image for which weights are read only once, because both stay
   * in the cache of a core */
  enum { GB_TILES_OF_PART = 8, GB_NARROW_STRIP = 1 << 20 };
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
  /* the bytes of the image that a part reads */
  const ptrdiff_t read = c->in.channels / s->group * c->in.bytes * c->part * rows * s->stride[0] *
                         s->stride[1];
  const ptrdiff_t fit = GB_NARROW_STRIP / read + 1;
  c->strip = fit < c->rows ? fit : c->rows;
  c->units = c->out.batch * pairs * c->rows;
}

static double gb_narrow_ns(const gb_width *width, const gb_call *c) {
  const double speed = c->has_tiles ? GB_TILED : 2 * gb_speed(width);
  return gb_products(c) / speed + gb_weights(c) / GB_READ_NARROW;
}
#endif
