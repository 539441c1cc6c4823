/* Convolutions of all kinds but Winograd's: each task does some rows of some blocks of channels. */

/* What a unit of work makes: pixels of a row, or of all rows where they lie without a gap; of a block or a pair of
 * blocks; of an image. `top` is the first part of the strip that is worked on. */
typedef struct {
  ptrdiff_t first, count, row, block, image, part, top;
} GB(place);

GK_INLINE void GB(find_pixels)(const gb_call *c, GB(place) * at) {
  const ptrdiff_t left = c->is_flat ? c->out.height * c->out.width - at->part * c->part : c->part;
  at->row = c->is_flat ? 0 : at->part;
  at->first = c->is_flat ? at->part * c->part : 0;
  at->count = left < c->part ? left : c->part;
}

GK_INLINE GB(place) GB(place_of)(const gb_call *c, ptrdiff_t unit, ptrdiff_t blocks) {
  GB(place) at = {.image = unit / (c->rows * blocks)};
  unit -= at.image * c->rows * blocks;
  at.top = unit / (c->strip * blocks) * c->strip;
  unit -= at.top * blocks;
  const ptrdiff_t height = c->rows - at.top < c->strip ? c->rows - at.top : c->strip;
  at.block = unit / height;
  at.part = at.top + unit % height;
  GB(find_pixels)(c, &at);
  return at;
}

/* Goes on to the next unit. */
GK_INLINE void GB(advance)(const gb_call *c, GB(place) * at, ptrdiff_t blocks) {
  if (++at->part == at->top + c->strip || at->part == c->rows) {
    at->part = at->top;
    if (++at->block == blocks) {
      at->block = 0;
      at->part = at->top += c->strip;
      if (at->top >= c->rows) {
        at->part = at->top = 0;
        ++at->image;
      }
    }
  }
  GB(find_pixels)(c, at);
}

/* Which channels there are of a block; NULL where there are all. */
GK_INLINE const int32_t *GB(lanes_of)(const gb_call *c, ptrdiff_t block) {
  return (block + 1) * GB_V > c->out.channels ? c->lanes : NULL;
}

GK_INLINE float *GB(at)(const gb_image *image, const GB(place) * p) {
  return image->data + p->image * image->image + p->block * image->plane + p->row * image->row + p->first * image->pixel;
}

/* The store whose tensor a block of channels is in. */
GK_INLINE const gb_call *GB(store_of)(const gb_call *c, ptrdiff_t block) {
  const gb_call *store = c + 1;
  while (store->maker != c || block < store->first || block >= store->first + store->in.blocks) ++store;
  return store;
}

static void GB(convolve)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_step *s = c->step;
  const int is_first = s->op == GB_FIRST, is_near = s->stride[1] == 1 && c->in.pixel == GB_V;
  const int kind = is_first ? GB(first) : is_near ? GB(near) : GB(far);
  const ptrdiff_t in_blocks = c->in.blocks / s->group, out_blocks = c->out.blocks / s->group;
  const ptrdiff_t pairs = (out_blocks + 1) / 2, pixel = c->in.pixel;
  const ptrdiff_t size = in_blocks * s->kernel[0] * s->kernel[1] * (is_first ? 1 : GB_V) * GB_V; /* weights of a block */
  (void)scratch;
  for (GB(place) at = GB(place_of)(c, unit, pairs * s->group); unit < end; ++unit, GB(advance)(c, &at, pairs * s->group)) {
    const ptrdiff_t group = at.block / pairs, pair = at.block % pairs;
    const int is_two = 2 * pair + 1 < out_blocks;
    const ptrdiff_t tiles = (at.part - at.top) * ((c->part + GB_TILE - 1) / GB_TILE);
    GB(place) to = at;
    to.block = group * out_blocks + 2 * pair;
    GB(tile) t = {
        .x = c->in.data + at.image * c->in.image + group * in_blocks * c->in.plane +
             (at.row * s->stride[0] - s->pads[0]) * c->in.row + (at.first * s->stride[1] - s->pads[1]) * pixel,
        .x_pixel = s->stride[1] * pixel,
        .x_block = c->in.plane,
        .x_row = s->dilation[0] * c->in.row,
        .x_column = s->dilation[1] * pixel,
        .w = c->weights + to.block * size,
        .ahead = tiles < GB_ASKING ? c->weights + (to.block + 1 + is_two) * size + tiles * (2 * size / GB_ASKING) : NULL,
        .ahead_step = tiles < GB_ASKING ? 2 * GB_LINE : 0,
        .blocks = in_blocks,
        .last = GB(last_of)(c->in.channels / s->group),
        .rows = s->kernel[0],
        .columns = s->kernel[1],
        .start = c->bias ? c->bias + to.block * GB_V : NULL,
        .y = GB(at)(&c->out, &to),
        .y_pixel = GB_V,
        .y_block = c->out.plane,
        .step = s,
        .lanes = GB(lanes_of)(c, to.block + is_two),
    };
    if (c->is_stored) {
      const gb_call *store = GB(store_of)(c, to.block);
      t.y = store->tensor + to.first * store->in.channels + (to.block - store->first) * GB_V;
      t.y_pixel = store->in.channels;
      t.y_block = GB_V;
    }
    if (c->in2.data) {
      t.residual = GB(at)(&c->in2, &to);
      t.residual_pixel = c->in2.pixel;
      t.residual_block = c->in2.plane;
    }
    GB(pixels)(&t, at.count, GB(tiles)[kind + is_two], 1 + is_two);
  }
}

/* A kernel as large as its stride: each of its elements is a convolution of 1×1 with pixels of its own. */
static void GB(transposed)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_step *s = c->step;
  const ptrdiff_t pairs = (c->out.blocks + 1) / 2, size = c->in.blocks * GB_V * GB_V;
  (void)scratch;
  for (GB(place) at = GB(place_of)(c, unit, pairs); unit < end; ++unit, GB(advance)(c, &at, pairs)) {
    const ptrdiff_t block = 2 * at.block;
    const int is_two = block + 1 < c->out.blocks;
    for (int i = 0; i < s->kernel[0]; ++i)
      for (int j = 0; j < s->kernel[1]; ++j) {
        const GB(place) to = {j, at.count, at.row * s->stride[0] + i, block, at.image, 0, 0};
        GB(tile) t = {
            .x = c->in.data + at.image * c->in.image + at.row * c->in.row,
            .x_pixel = GB_V,
            .x_block = c->in.plane,
            .w = c->weights + ((i * s->kernel[1] + j) * c->out.blocks + block) * size,
            .blocks = c->in.blocks,
            .last = GB(last_of)(c->in.channels),
            .rows = 1,
            .columns = 1,
            .start = c->bias ? c->bias + block * GB_V : NULL,
            .y = GB(at)(&c->out, &to),
            .y_pixel = s->stride[1] * GB_V,
            .y_block = c->out.plane,
            .step = s,
            .lanes = GB(lanes_of)(c, block + is_two),
        };
        if (c->in2.data) {
          t.residual = GB(at)(&c->in2, &to);
          t.residual_pixel = t.y_pixel;
          t.residual_block = c->in2.plane;
        }
        GB(pixels)(&t, at.count, GB(tiles)[GB(near) + is_two], 1 + is_two);
      }
  }
}

static void GB(depthwise)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_step *s = c->step;
  const ptrdiff_t taps = s->kernel[0] * s->kernel[1];
  GB(tile_function) *const *tiles = GB(depthwise_tiles)(s);
  (void)scratch;
  for (GB(place) at = GB(place_of)(c, unit, c->out.blocks); unit < end; ++unit, GB(advance)(c, &at, c->out.blocks)) {
    GB(tile) t = {
        .x = c->in.data + at.image * c->in.image + at.block * c->in.plane +
             (at.row * s->stride[0] - s->pads[0]) * c->in.row + (at.first * s->stride[1] - s->pads[1]) * GB_V,
        .x_pixel = s->stride[1] * GB_V,
        .x_row = s->dilation[0] * c->in.row,
        .x_column = s->dilation[1] * GB_V,
        .w = c->weights + at.block * taps * GB_V,
        .rows = s->kernel[0],
        .columns = s->kernel[1],
        .start = c->bias ? c->bias + at.block * GB_V : NULL,
        .y = GB(at)(&c->out, &at),
        .y_pixel = GB_V,
        .step = s,
        .lanes = GB(lanes_of)(c, at.block),
    };
    if (c->in2.data) t.residual = GB(at)(&c->in2, &at);
    t.residual_pixel = GB_V;
    GB(pixels)(&t, at.count, tiles, 1);
  }
}

/* Where weights lie of one element of a kernel and one channel in, of `all` of these, for a block of channels out. Those of
 * two blocks lie side by side, as tiles read them. */
GK_INLINE float *GB(packed)(float *to, ptrdiff_t block, ptrdiff_t blocks, ptrdiff_t all, ptrdiff_t number) {
  const ptrdiff_t pair = block / 2 * 2, side_by_side = pair + 1 < blocks ? 2 : 1;
  return to + (pair * all + number * side_by_side + block - pair) * GB_V;
}

/* Weights [out, in / group, rows, columns] as convolve reads them: C channels in, those that there are not being zero. */
static void GB(pack)(const float *w, float *to, const gb_step *s, ptrdiff_t in, ptrdiff_t out, ptrdiff_t C) {
  const ptrdiff_t taps = s->kernel[0] * s->kernel[1], own = in / s->group, groups_out = out / s->group;
  const ptrdiff_t all = (own + C - 1) / C * C * taps, blocks = (groups_out + GB_V - 1) / GB_V;
  for (ptrdiff_t g = 0; g < s->group; ++g)
    for (ptrdiff_t o = 0; o < groups_out; ++o)
      for (ptrdiff_t i = 0; i < own; ++i)
        for (ptrdiff_t k = 0; k < taps; ++k)
          GB(packed)(to + g * blocks * all * GB_V, o / GB_V, blocks, all, (i / C * taps + k) * C + i % C)[o % GB_V] =
              w[((g * groups_out + o) * own + i) * taps + k];
}

/* Weights [channels, 1, rows, columns] */
static void GB(pack_depthwise)(const float *w, float *to, const gb_step *s, ptrdiff_t channels) {
  const ptrdiff_t taps = s->kernel[0] * s->kernel[1];
  for (ptrdiff_t b = 0; b < channels; b += GB_V)
    for (ptrdiff_t k = 0; k < taps; ++k)
      for (ptrdiff_t v = 0; v < GB_V; ++v) *to++ = b + v < channels ? w[(b + v) * taps + k] : 0.0f;
}

/* Weights [in, out, rows, columns] */
static void GB(pack_transposed)(const float *w, float *to, const gb_step *s, ptrdiff_t in, ptrdiff_t out) {
  const ptrdiff_t taps = s->kernel[0] * s->kernel[1], blocks = (out + GB_V - 1) / GB_V;
  const ptrdiff_t all = (in + GB_V - 1) / GB_V * GB_V;
  for (ptrdiff_t k = 0; k < taps; ++k)
    for (ptrdiff_t i = 0; i < in; ++i)
      for (ptrdiff_t o = 0; o < out; ++o)
        GB(packed)(to + k * blocks * all * GB_V, o / GB_V, blocks, all, i)[o % GB_V] = w[(i * out + o) * taps + k];
}
