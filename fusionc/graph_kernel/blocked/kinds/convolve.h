/* Direct convolutions and products. Each task computes some rows of some blocks of channels.
 * Winograd's algorithm, Strassen's algorithm, convolutions by lane and transposed convolutions are
 * in other files. */
#ifdef GB_V
/* Moves the pixels of a part, for one or two blocks, from consecutive places to their places in
 * rows with gaps between them; or, if is_back, from there to consecutive places. */
GK_INLINE void GB(scatter)(const gb_call *c, const GB(place) *part, float *made, int blocks,
                           const int is_back) {
  const ptrdiff_t width = c->out.width;
  GB(place) to = *part;
  to.row = part->first / width;
  to.first = part->first % width;
  for (ptrdiff_t done = 0, run; done < part->count; done += run, ++to.row, to.first = 0) {
    run = width - to.first < part->count - done ? width - to.first : part->count - done;
    float *y = GB(at)(&c->out, &to), *side_by_side = made + done * GB_V;
    for (int b = 0; b < blocks; ++b, y += c->out.plane, side_by_side += GB_PART * GB_V)
      for (ptrdiff_t k = 0; k < run * GB_V; k += GB_V)
        *(GB(vec) *)((is_back ? side_by_side : y) + k) = GB(load)((is_back ? y : side_by_side) + k);
  }
}

/* Multiplies the weights of a pair of blocks: those of each input channel by the channel's number
 * in the pixel in3. Returns the products, which are written to `to`. */
static const float *GB(multiply_weights)(const gb_call *c, ptrdiff_t image, ptrdiff_t pair,
                                         float *to) {
  const ptrdiff_t all = c->in.blocks * GB_V, made = 2 * pair + 1 < c->out.blocks ? 2 * GB_V : GB_V;
  const float *w = c->weights + 2 * pair * all * GB_V;
  for (ptrdiff_t i = 0; i < all; ++i, w += made) {
    const GB(vec) factor =
        GB(all)(c->in3.data[image * c->in3.image + i / GB_V * c->in3.plane + i % GB_V]);
    for (ptrdiff_t v = 0; v < made; v += GB_V)
      *(GB(vec) *)(to + i * made + v) = GB(load)(w + v) * factor;
  }
  return to;
}

/* Computes the sums of a part over `blocks` blocks of input channels, from block `first` on. The
 * weights of the pair of blocks are `multiplied`, or the step's own weights if that is NULL. */
GK_INLINE void GB(convolve_part)(const gb_call *c, const GB(place) *at, ptrdiff_t first,
                                 ptrdiff_t blocks, const float *multiplied) {
  const gb_step *s = c->step;
  const int is_first = s->op == GB_FIRST, is_near = s->stride[1] == 1 && c->in.pixel == GB_V;
  const int is_one = s->group == 1; /* avoids a division, which takes as long as some pixels */
  const ptrdiff_t in_blocks = is_one ? c->in.blocks : c->in.blocks / s->group;
  const ptrdiff_t out_blocks = is_one ? c->out.blocks : c->out.blocks / s->group,
                  pairs = (out_blocks + 1) / 2;
  const ptrdiff_t pixel = c->in.pixel, group = is_one ? 0 : at->block / pairs,
                  pair = at->block - group * pairs;
  /* the floats of the weights between one input block and one output block */
  const ptrdiff_t size = s->kernel[0] * s->kernel[1] * (is_first ? 1 : GB_V) * GB_V;
  const int is_two = 2 * pair + 1 < out_blocks, is_last = first + blocks == in_blocks;
  const ptrdiff_t tiles = (at->part - at->top) * ((c->part + GB_TILE - 1) / GB_TILE),
                  weights = blocks * size * (1 + is_two);
  GB(place) to = *at;
  to.block = group * out_blocks + 2 * pair;
  GB(tile) t = {
      .x = c->in.data + at->image * c->in.image + (group * in_blocks + first) * c->in.plane +
           (at->row * s->stride[0] - s->pads[0]) * c->in.row +
           (at->first * s->stride[1] - s->pads[1]) * pixel,
      .x_pixel = s->stride[1] * pixel,
      .x_block = c->in.plane,
      .x_row = s->dilation[0] * c->in.row,
      .x_column = s->dilation[1] * pixel,
      .w = (multiplied ? multiplied : c->weights + to.block * in_blocks * size) +
           first * (1 + is_two) * size,
      .blocks = blocks,
      .last = is_last ? GB(last_of)(c->in.channels / s->group) : GB_V,
      .rows = s->kernel[0],
      .columns = s->kernel[1],
      .start = c->bias ? c->bias + to.block * GB_V : NULL,
      .is_begun = first > 0,
      .y = GB(at)(&c->out, &to),
      .y_pixel = GB_V,
      .y_block = c->out.plane,
      .step = is_last ? s : NULL,
      .lanes = GB(lanes_of)(c, to.block + is_two),
  };
  if (tiles < GB_ASKING) {
    t.ahead = t.w + weights + tiles * (weights / GB_ASKING);
    t.ahead_step = 2 * GB_LINE;
  }
  float made[2 * GB_PART * GB_V] __attribute__((aligned(4 * GB_V)));
  if (c->is_scattered) {
    t.y = made;
    t.y_block = GB_PART * GB_V;
    if (t.is_begun) GB(scatter)(c, &to, made, 1 + is_two, 1);
  } else if (c->is_stored) {
    const gb_call *store = GB(store_of)(c, to.block);
    t.y = store->tensor + to.first * store->in.channels + (to.block - store->first) * GB_V;
    t.y_pixel = store->in.channels;
    t.y_block = GB_V;
  }
  /* Add in2 before the result is written, because the two may share memory. */
  if (c->in2.data && (s->after ? is_last : first == 0)) {
    t.residual = GB(at)(&c->in2, &to);
    t.residual_pixel = c->in2.pixel;
    t.residual_block = c->in2.plane;
  }
  GB(pixels)(&t, at->count,
             (is_first  ? GB(first_tiles)
              : is_near ? GB(near_tiles)
                        : GB(far_tiles))[is_two],
             1 + is_two);
  if (c->is_scattered) GB(scatter)(c, &to, made, 1 + is_two, 0);
}

void GB(convolve_directly)(const gb_call *c, const GB(place) *at) {
  GB(convolve_part)(c, at, 0, c->in.blocks, NULL);
}

void GB(convolve)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_step *s = c->step;
  const ptrdiff_t in_blocks = c->in.blocks / s->group,
                  blocks = (c->out.blocks / s->group + 1) / 2 * s->group;
  const ptrdiff_t at_once = s->op == GB_FIRST ? in_blocks : GB(blocks_at_once)(s, in_blocks);
  const float *multiplied = NULL;
  ptrdiff_t image = -1, block = -1; /* the image and block of the multiplied weights */
  for (GB(place) at = GB(place_of)(c, unit, blocks); unit < end; GB(advance)(c, &at, blocks)) {
    if (c->in3.data && (at.image != image || at.block != block))
      multiplied = GB(multiply_weights)(c, image = at.image, block = at.block, scratch);
    const ptrdiff_t bottom = at.top + c->strip < c->rows ? at.top + c->strip : c->rows;
    const ptrdiff_t run = bottom - at.part < end - unit ? bottom - at.part : end - unit,
                    part = at.part;
    for (ptrdiff_t first = 0; first < in_blocks; first += at_once)
      for (at.part = part; at.part < part + run; ++at.part) {
        GB(find_pixels)(c, &at);
        GB(convolve_part)(c, &at, first, in_blocks - first < at_once ? in_blocks - first : at_once,
                          multiplied);
      }
    --at.part;
    unit += run;
  }
}

/* Packs weights [out, in / group, rows, columns]. For `convolve`, C input channels (padded with
 * zeros) are together for each kernel element. For `winograd`, C is 1: each input channel has its
 * whole kernel. */
GK_INLINE void GB(pack_by)(const float *w, float *to, const gb_step *s, ptrdiff_t in, ptrdiff_t out,
                           ptrdiff_t C) {
  const ptrdiff_t taps = s->kernel[0] * s->kernel[1], own = in / s->group,
                  groups_out = out / s->group;
  const ptrdiff_t full = s->op == GB_FIRST ? 1 : GB_V, blocks = (groups_out + GB_V - 1) / GB_V;
  const ptrdiff_t all = (own + full - 1) / full * full * taps;
  for (ptrdiff_t g = 0; g < s->group; ++g)
    for (ptrdiff_t o = 0; o < groups_out; ++o)
      for (ptrdiff_t i = 0; i < own; ++i)
        for (ptrdiff_t k = 0; k < taps; ++k)
          GB(packed)(to + g * blocks * all * GB_V, o / GB_V, blocks, all,
                     (i / C * taps + k) * C + i % C)[o % GB_V] =
              w[((g * groups_out + o) * own + i) * taps + k];
}

void GB(pack)(const float *w, float *to, const gb_step *s, ptrdiff_t in, ptrdiff_t out) {
  GB(pack_by)(w, to, s, in, out, GB_V);
}

void GB(pack_by_channel)(const float *w, float *to, const gb_step *s, ptrdiff_t in, ptrdiff_t out) {
  GB(pack_by)(w, to, s, in, out, 1);
}

/* The floats of scratch memory for the weights of a pair of blocks, multiplied by a pixel. */
ptrdiff_t GB(multiplied_floats)(const gb_call *c) {
  return c->step->in3 >= 0 ? c->in.blocks * GB_V * 2 * GB_V : 0;
}

#else
static ptrdiff_t gb_first_floats(const gb_width *width, const gb_step *s, ptrdiff_t in,
                                 ptrdiff_t out) {
  return in * gb_rounded(out, width->vector) * s->kernel[0] * s->kernel[1];
}

static void gb_divide_convolution(const gb_width *width, gb_call *c) {
  gb_divide_into(width, c, gb_pairs(c), 1);
}

/* The estimated time. If there are few pixels, reading weights from memory takes a part of it,
 * too. */
static double gb_convolution_ns(const gb_width *width, const gb_call *c) {
  return gb_products(c) / gb_speed(width) + gb_weights(c) / GB_READ;
}
#endif
