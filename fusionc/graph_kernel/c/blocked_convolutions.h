/* Convolutions of all kinds but Winograd's: each task does some rows of some blocks of channels. */

/* the row of an image that a unit of work makes, and where in it: segments of a row, rows, blocks or pairs of them, images */
typedef struct {
  ptrdiff_t first, count, row, block, image;
} GB(place);

GK_INLINE GB(place) GB(place_of)(const gb_call *c, ptrdiff_t unit, ptrdiff_t blocks) {
  const ptrdiff_t segment = unit % c->segments, row = unit / c->segments % c->rows;
  const ptrdiff_t block = unit / c->segments / c->rows;
  const ptrdiff_t from = c->columns * segment / c->segments, to = c->columns * (segment + 1) / c->segments;
  return (GB(place)){from, to - from, row, block % blocks, block / blocks};
}

/* Which channels there are of a block; NULL where there are all. */
GK_INLINE const int32_t *GB(lanes_of)(const gb_call *c, ptrdiff_t block) {
  return (block + 1) * GB_V > c->out.channels ? c->lanes : NULL;
}

static void GB(convolve)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_step *s = c->step;
  const int is_first = s->op == GB_FIRST, kind = is_first ? GB(first) : s->stride[1] == 1 ? GB(near) : GB(far);
  const ptrdiff_t in_blocks = c->in.blocks / s->group, out_blocks = c->out.blocks / s->group;
  const ptrdiff_t pairs = (out_blocks + 1) / 2, pixel = is_first ? 1 : GB_V;
  const ptrdiff_t size = in_blocks * s->kernel[0] * s->kernel[1] * pixel * GB_V; /* weights of a block */
  (void)scratch;
  for (; unit < end; ++unit) {
    const GB(place) at = GB(place_of)(c, unit, pairs * s->group);
    const ptrdiff_t group = at.block / pairs, pair = at.block % pairs, block = group * out_blocks + 2 * pair;
    const int is_two = 2 * pair + 1 < out_blocks;
    GB(tile) t = {
        .x = c->in.data + at.image * c->in.image + group * in_blocks * c->in.plane +
             (at.row * s->stride[0] - s->pads[0]) * c->in.row + (at.first * s->stride[1] - s->pads[1]) * pixel,
        .x_pixel = s->stride[1] * pixel,
        .x_block = c->in.plane,
        .x_row = s->dilation[0] * c->in.row,
        .x_column = s->dilation[1] * pixel,
        .w = c->weights + block * size,
        .w_block = size,
        .blocks = in_blocks,
        .rows = s->kernel[0],
        .columns = s->kernel[1],
        .start = c->bias ? c->bias + block * GB_V : NULL,
        .y = c->out.data + at.image * c->out.image + block * c->out.plane + at.row * c->out.row + at.first * GB_V,
        .y_pixel = GB_V,
        .y_block = c->out.plane,
        .step = s,
        .lanes = GB(lanes_of)(c, block + is_two),
    };
    if (c->in2.data) {
      t.residual = c->in2.data + at.image * c->in2.image + block * c->in2.plane + at.row * c->in2.row + at.first * GB_V;
      t.residual_block = c->in2.plane;
    }
    GB(pixels)(t, at.count, GB(tiles)[kind + is_two]);
  }
}

/* A kernel as large as its stride: each of its elements is a convolution of 1×1 with pixels of its own. */
static void GB(transposed)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_step *s = c->step;
  const ptrdiff_t pairs = (c->out.blocks + 1) / 2, size = c->in.blocks * GB_V * GB_V;
  (void)scratch;
  for (; unit < end; ++unit) {
    const GB(place) at = GB(place_of)(c, unit, pairs);
    const ptrdiff_t block = 2 * at.block;
    const int is_two = block + 1 < c->out.blocks;
    for (int i = 0; i < s->kernel[0]; ++i)
      for (int j = 0; j < s->kernel[1]; ++j) {
        const ptrdiff_t row = at.row * s->stride[0] + i, column = at.first * s->stride[1] + j;
        GB(tile) t = {
            .x = c->in.data + at.image * c->in.image + at.row * c->in.row + at.first * GB_V,
            .x_pixel = GB_V,
            .x_block = c->in.plane,
            .w = c->weights + ((i * s->kernel[1] + j) * c->out.blocks + block) * size,
            .w_block = size,
            .blocks = c->in.blocks,
            .rows = 1,
            .columns = 1,
            .start = c->bias ? c->bias + block * GB_V : NULL,
            .y = c->out.data + at.image * c->out.image + block * c->out.plane + row * c->out.row + column * GB_V,
            .y_pixel = s->stride[1] * GB_V,
            .y_block = c->out.plane,
            .step = s,
            .lanes = GB(lanes_of)(c, block + is_two),
        };
        if (c->in2.data) {
          t.residual = c->in2.data + at.image * c->in2.image + block * c->in2.plane + row * c->in2.row + column * GB_V;
          t.residual_block = c->in2.plane;
        }
        GB(pixels)(t, at.count, GB(tiles)[is_two]);
      }
  }
}

/* R pixels of one block, each channel by itself */
GK_INLINE void GB(depthwise_pixels)(const GB(tile) *t, const int R) {
  GB(vec) sums[GB_DEPTHWISE_TILE];
  for (int r = 0; r < R; ++r) sums[r] = t->start ? GB(load)(t->start) : (GB(vec)){0};
  const float *w = t->w, *row = t->x;
  for (ptrdiff_t i = 0; i < t->rows; ++i, row += t->x_row) {
    const float *x = row;
    for (ptrdiff_t j = 0; j < t->columns; ++j, x += t->x_column, w += GB_V)
      for (int r = 0; r < R; ++r) sums[r] = GB_MADD(GB(load)(x + r * t->x_pixel), GB(load)(w), sums[r]);
  }
  GB(finish)(t, sums, t->y, t->residual, t->lanes, R);
}

static void GB(depthwise)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_step *s = c->step;
  (void)scratch;
  for (; unit < end; ++unit) {
    const GB(place) at = GB(place_of)(c, unit, c->out.blocks);
    GB(tile) t = {
        .x = c->in.data + at.image * c->in.image + at.block * c->in.plane +
             (at.row * s->stride[0] - s->pads[0]) * c->in.row + (at.first * s->stride[1] - s->pads[1]) * GB_V,
        .x_pixel = s->stride[1] * GB_V,
        .x_row = s->dilation[0] * c->in.row,
        .x_column = s->dilation[1] * GB_V,
        .w = c->weights + at.block * s->kernel[0] * s->kernel[1] * GB_V,
        .rows = s->kernel[0],
        .columns = s->kernel[1],
        .start = c->bias ? c->bias + at.block * GB_V : NULL,
        .y = c->out.data + at.image * c->out.image + at.block * c->out.plane + at.row * c->out.row + at.first * GB_V,
        .y_pixel = GB_V,
        .step = s,
        .lanes = GB(lanes_of)(c, at.block),
    };
    if (c->in2.data)
      t.residual =
          c->in2.data + at.image * c->in2.image + at.block * c->in2.plane + at.row * c->in2.row + at.first * GB_V;
    for (ptrdiff_t left = at.count; left > 0;) {
      const ptrdiff_t done = left >= GB_DEPTHWISE_TILE ? GB_DEPTHWISE_TILE : left >= 4 ? 4 : left >= 2 ? 2 : 1;
      if (done == GB_DEPTHWISE_TILE) GB(depthwise_pixels)(&t, GB_DEPTHWISE_TILE);
      else if (done == 4) GB(depthwise_pixels)(&t, 4);
      else if (done == 2) GB(depthwise_pixels)(&t, 2);
      else GB(depthwise_pixels)(&t, 1);
      t.x += done * t.x_pixel;
      t.y += done * GB_V;
      if (t.residual) t.residual += done * GB_V;
      left -= done;
    }
  }
}

/* Weights [out, in / group, rows, columns] as convolve reads them: C channels in, those that there are not being zero. */
static void GB(pack)(const float *w, float *to, const gb_step *s, ptrdiff_t in, ptrdiff_t out, ptrdiff_t C) {
  const ptrdiff_t taps = s->kernel[0] * s->kernel[1], own = in / s->group, groups_out = out / s->group;
  const ptrdiff_t in_blocks = (own + C - 1) / C, out_blocks = (groups_out + GB_V - 1) / GB_V;
  for (ptrdiff_t g = 0; g < s->group; ++g)
    for (ptrdiff_t o = 0; o < out_blocks; ++o)
      for (ptrdiff_t i = 0; i < in_blocks; ++i)
        for (ptrdiff_t k = 0; k < taps; ++k)
          for (ptrdiff_t c = 0; c < C; ++c)
            for (ptrdiff_t v = 0; v < GB_V; ++v) {
              const ptrdiff_t channel = i * C + c, made = o * GB_V + v;
              *to++ = channel < own && made < groups_out ? w[((g * groups_out + made) * own + channel) * taps + k] : 0.0f;
            }
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
  const ptrdiff_t taps = s->kernel[0] * s->kernel[1];
  for (ptrdiff_t k = 0; k < taps; ++k)
    for (ptrdiff_t o = 0; o < out; o += GB_V)
      for (ptrdiff_t c = 0; c < (in + GB_V - 1) / GB_V * GB_V; ++c)
        for (ptrdiff_t v = 0; v < GB_V; ++v) *to++ = c < in && o + v < out ? w[(c * out + o + v) * taps + k] : 0.0f;
}
