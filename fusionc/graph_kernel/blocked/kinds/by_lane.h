/* Convolutions in which each lane of a vector reads its own channels: depthwise convolutions, and
 * convolutions whose groups are not whole vectors. */
#ifndef GB_BY_LANE
#define GB_BY_LANE
/* Whether each lane reads its own channel (in a depthwise convolution) or its own group of
 * channels. Otherwise, groups are whole vectors. */
static inline __attribute__((always_inline, unused)) int gb_is_by_lane(const gb_step *s,
                                                                       ptrdiff_t in, ptrdiff_t out,
                                                                       int vector) {
  return s->op == GB_DEPTHWISE || in / s->group % vector || out / s->group % vector;
}
#endif

#ifdef GB_V
/* The depthwise sums of R pixels of one block, for kernels with K columns. `pixel` is the distance
 * between pixels, and `column` the distance between columns. */
GK_INLINE void GB(each_sum)(const GB(tile) *t, const ptrdiff_t pixel, const ptrdiff_t column,
                            const int R, const ptrdiff_t K) {
  GB(vec) sums[GB_LONGEST];
  GB_FOR_PIXELS(r) sums[r] = t->start ? GB(load)(t->start) : (GB(vec)){0};
  const float *w = t->w, *row = t->x;
  for (ptrdiff_t i = 0; i < t->rows; ++i, row += t->x_row) {
    const float *x = row;
#pragma GCC unroll 8
    for (ptrdiff_t j = 0; j < K; ++j, x += column, w += GB_V) {
      GB_FOR_PIXELS(r) sums[r] = GB_MADD(GB(load)(x + r * pixel), GB(load)(w), sums[r]);
    }
  }
  GB(finish)(t, sums, t->y, t->residual, t->lanes, R);
}

/* The grouped sums of R pixels of one block. Each lane adds up the channels of its own group. All
 * lanes do so at the same time, one channel after the other. */
GK_INLINE void GB(grouped_sum)(const GB(tile) *t, const int R) {
  GB(vec) sums[GB_LONGEST];
  GB_FOR_PIXELS(r) sums[r] = t->start ? GB(load)(t->start) : (GB(vec)){0};
  const float *w = t->w, *row = t->x;
  for (ptrdiff_t i = 0; i < t->rows; ++i, row += t->x_row) {
    const float *x = row;
    for (ptrdiff_t j = 0; j < t->columns; ++j, x += t->x_column) {
      GB(bits) from = *(const GB(bits) *)t->sources;
      for (ptrdiff_t c = 0; c < t->last; ++c, w += GB_V, from += 1) {
        const GB(vec) factor = GB(load)(w);
        GB_FOR_PIXELS(r)
          sums[r] = GB_MADD(GB_PERMUTE(GB(load)(x + r * t->x_pixel), from), factor, sums[r]);
      }
    }
  }
  GB(finish)(t, sums, t->y, t->residual, t->lanes, R);
}

#define GB_LANE_TILE_OF(r)                                                          \
  GB_FUNCTION(each_##r, GB(each_sum)(t, t->x_pixel, t->x_column, r, t->columns), r) \
  GB_FUNCTION(each_3_##r, GB(each_sum)(t, GB_V, GB_V, r, 3), r)                     \
  GB_FUNCTION(each_5_##r, GB(each_sum)(t, GB_V, GB_V, r, 5), r)                     \
  GB_FUNCTION(each_3_2_##r, GB(each_sum)(t, 2 * GB_V, GB_V, r, 3), r)               \
  GB_FUNCTION(each_5_2_##r, GB(each_sum)(t, 2 * GB_V, GB_V, r, 5), r)               \
  GB_FUNCTION(each_7_##r, GB(each_sum)(t, GB_V, GB_V, r, 7), r)                     \
  GB_FUNCTION(grouped_##r, GB(grouped_sum)(t, r), r)
GB_LANE_TILES(GB_LANE_TILE_OF)
#undef GB_LANE_TILE_OF

#define GB_EACH_TILE(r) [r] = GB(each_##r),
#define GB_EACH_3(r) [r] = GB(each_3_##r),
#define GB_EACH_5(r) [r] = GB(each_5_##r),
#define GB_EACH_3_2(r) [r] = GB(each_3_2_##r),
#define GB_EACH_5_2(r) [r] = GB(each_5_2_##r),
#define GB_EACH_7(r) [r] = GB(each_7_##r),
#define GB_GROUPED_TILE(r) [r] = GB(grouped_##r),
/* The functions, by number of pixels. The rows of this table are: any kernel; kernels of 3, 5 and 7
 * columns; kernels of 3 and 5 columns with a stride of 2; grouped convolutions. NULL means that
 * there is no function for that number of pixels. */
static GB(tile_function) *const GB(lane_tiles)[][GB_LONGEST + 1] = {
    {GB_LANE_TILES(GB_EACH_TILE)},    {GB_LANE_TILES(GB_EACH_3)},   {GB_LANE_TILES(GB_EACH_5)},
    {GB_LANE_TILES(GB_EACH_7)},       {GB_LANE_TILES(GB_EACH_3_2)}, {GB_LANE_TILES(GB_EACH_5_2)},
    {GB_LANE_TILES(GB_GROUPED_TILE)},
};
enum { GB(each) = 0, GB(each_of_3), GB(each_second_of_3) = 4, GB(grouped_tiles) = 6 };
#undef GB_EACH_TILE
#undef GB_EACH_3
#undef GB_EACH_5
#undef GB_EACH_3_2
#undef GB_EACH_5_2
#undef GB_EACH_7
#undef GB_GROUPED_TILE

GK_INLINE GB(tile_function) *const *GB(tiles_by_lane)(const gb_step *s) {
  const int columns = s->kernel[1], stride = s->stride[1], size = columns / 2;
  if (s->op == GB_GROUPED) return GB(lane_tiles)[GB(grouped_tiles)];
  const int first = stride == 1 ? GB(each_of_3) : GB(each_second_of_3);
  const int most = stride == 1 ? 3 : stride == 2 ? 2 : 0;
  const int is_known = s->dilation[1] == 1 && columns % 2 && size >= 1 && size <= most;
  return GB(lane_tiles)[is_known ? first + size - 1 : GB(each)];
}

/* Computes depthwise and grouped convolutions. If groups are whole vectors, because vectors are
 * short, calls `convolve`. */
void GB(by_lane)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_step *s = c->step;
  const ptrdiff_t in = c->in.channels / s->group, out = c->out.channels / s->group,
                  taps = s->kernel[0] * s->kernel[1];
  if (!gb_is_by_lane(s, c->in.channels, c->out.channels, GB_V)) {
    GB(convolve)(c, unit, end, scratch);
    return;
  }
  GB(tile_function) *const *tiles = GB(tiles_by_lane)(s);
  GB(range) range = GB(no_range)();
  const ptrdiff_t begin = unit;
  for (GB(place) at = GB(place_of)(c, unit, c->out.blocks); unit < end;) {
    const ptrdiff_t image = at.image, block = at.block;
    const float *x = c->in.data + image * c->in.image +
                     block * GB_V / out * in / GB_V * c->in.plane - s->pads[0] * c->in.row -
                     s->pads[1] * GB_V;
    int32_t sources[GB_V];
    if (s->op == GB_GROUPED)
      for (int v = 0; v < GB_V; ++v) sources[v] = (int32_t)((block * GB_V + v) / out * in % GB_V);
    GB(tile) t = {
        .x_pixel = s->stride[1] * GB_V,
        .x_row = s->dilation[0] * c->in.row,
        .x_column = s->dilation[1] * GB_V,
        .w = c->weights + block * taps * in * GB_V,
        .ahead = c->weights,
        .last = in,
        .sources = sources,
        .rows = s->kernel[0],
        .columns = s->kernel[1],
        .start = c->bias ? c->bias + block * GB_V : NULL,
        .y_pixel = GB_V,
        .residual_pixel = GB_V,
        .step = s,
        .lanes = GB(lanes_of)(c, block),
    };
    for (; unit < end && at.block == block && at.image == image;
         ++unit, GB(advance)(c, &at, c->out.blocks)) {
      float *y = t.y = GB(at)(&c->out, &at);
      const float *residual = t.residual = c->in2.data ? GB(at)(&c->in2, &at) : NULL;
      t.x = x + at.row * s->stride[0] * c->in.row + at.first * t.x_pixel;
      GB(tiles_side_by_side)(&t, at.count, tiles, GB_LONGEST);
      if (!GB(is_finished)(s)) GB(finish_pixels)(&t, at.count, y, residual);
      if (c->ranges) GB(stretch)(&range, y, at.count, t.lanes);
    }
  }
  GB(keep_range)(c, begin, &range);
}

/* Packs weights [out, in / group, rows, columns] for by_lane: for each kernel element and each
 * channel of a group, the weights of all lanes. */
void GB(pack_by_lane)(const float *w, float *to, const gb_step *s, ptrdiff_t in, ptrdiff_t out) {
  const ptrdiff_t taps = s->kernel[0] * s->kernel[1], own = in / s->group;
  for (ptrdiff_t b = 0; b < out; b += GB_V)
    for (ptrdiff_t k = 0; k < taps; ++k)
      for (ptrdiff_t i = 0; i < own; ++i)
        for (ptrdiff_t v = 0; v < GB_V; ++v)
          *to++ = b + v < out ? w[((b + v) * own + i) * taps + k] : 0.0f;
}

void GB(pack_grouped)(const float *w, float *to, const gb_step *s, ptrdiff_t in, ptrdiff_t out) {
  (gb_is_by_lane(s, in, out, GB_V) ? GB(pack_by_lane) : GB(pack))(w, to, s, in, out);
}

#else
static ptrdiff_t gb_lane_floats(const gb_width *width, const gb_step *s, ptrdiff_t in,
                                ptrdiff_t out) {
  if (!gb_is_by_lane(s, in, out, width->vector)) return gb_packed_floats(width, s, in, out);
  return in / s->group * gb_rounded(out, width->vector) * s->kernel[0] * s->kernel[1];
}

static void gb_divide_grouped(const gb_width *width, gb_call *c) {
  const int is_by_lane = gb_is_by_lane(c->step, c->in.channels, c->out.channels, width->vector);
  gb_divide_into(width, c, is_by_lane ? c->out.blocks : gb_pairs(c), !is_by_lane);
}

static double gb_grouped_ns(const gb_width *width, const gb_call *c) {
  return gb_products(c) / (gb_speed(width) / 2);
}

static double gb_depthwise_ns(const gb_width *width, const gb_call *c) {
  enum { GB_WRITTEN = 8 }; /* floats written in a nanosecond */
  return gb_products(c) / (gb_speed(width) / 2) + gb_made(c) / GB_WRITTEN;
}
#endif
