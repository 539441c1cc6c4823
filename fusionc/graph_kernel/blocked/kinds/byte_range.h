/* The scale and zero point (the grid) of a quantization at run time, computed like onnxruntime's
 * DynamicQuantizeLinear. */
#ifdef GB_V
/* A unit is a row of a block of the result. The rows of different batches are side by side. */
void GB(byte_range)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const ptrdiff_t rows = c->out.batch * c->out.height,
                  each = c->in.batch * c->in.height * c->in.width / (rows ? rows : 1);
  const int is_joined = c->in.batch * c->in.height != rows;
  (void)scratch;
  for (GB(place) at = GB(place_of)(c, unit, c->out.blocks); unit < end;
       ++unit, GB(advance)(c, &at, c->out.blocks)) {
    GB(place) from = {.row = at.row, .block = at.block, .image = at.image};
    if (is_joined)
      from = (GB(place)){.first = (at.image * c->out.height + at.row) * each, .block = at.block};
    GB(range) range = GB(no_range)();
    if (c->in.is_planar) {
      for (ptrdiff_t v = 0; v < GB_V && at.block * GB_V + v < c->in.channels; ++v) {
        from.block = at.block * GB_V + v;
        const float *x = GB(at)(&c->in, &from);
        for (ptrdiff_t k = 0; k < each; ++k) {
          range.least[v] = x[k] < range.least[v] ? x[k] : range.least[v];
          range.largest[v] = x[k] > range.largest[v] ? x[k] : range.largest[v];
        }
      }
    } else {
      GB(stretch)(&range, GB(at)(&c->in, &from), each, GB(lanes_of)(c, at.block));
    }
    float *y = GB(at)(&c->out, &(GB(place)){.row = at.row, .block = at.block, .image = at.image});
    *(GB(vec) *)y = range.least;
    *(GB(vec) *)(y + GB_V) = range.largest;
  }
}

/* Joins a range with the ranges of a row (two pixels), or of a task. */
GK_INLINE void GB(join)(GB(range) *range, const float *x) {
  range->least = GB_MIN(GB(load)(x), range->least);
  range->largest = GB_MAX(GB(load)(x + GB_V), range->largest);
}

void GB(byte_grid)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_call *maker = c->ranged;
  GB(range) range = GB(no_range)();
  float least = INFINITY, largest = -INFINITY;
  (void)scratch;
  (void)unit;
  (void)end;
  for (ptrdiff_t k = 0; maker && k < maker->tasks; ++k)
    GB(join)(&range, maker->ranges + 2 * (maker->units * k / maker->tasks) * GB_V);
  for (GB(place) at = {0}; !maker && at.image < c->in.batch; ++at.image)
    for (at.block = 0; at.block < c->in.blocks; ++at.block)
      for (at.row = 0; at.row < c->in.height; ++at.row) GB(join)(&range, GB(at)(&c->in, &at));
  for (int v = 0; v < GB_V; ++v) {
    least = range.least[v] < least ? range.least[v] : least;
    largest = range.largest[v] > largest ? range.largest[v] : largest;
  }
  /* If there was nothing except NaN, the result is NaN. Otherwise, the range is extended to 0. */
  least = least > largest ? NAN : least < 0.0f ? least : 0.0f;
  largest = largest > 0.0f ? largest : 0.0f;
  const float scale = least == largest ? 1.0f : (largest - least) / 255.0f;
  const float exact = 0.0f - least / scale; /* NaN (from two infinities) becomes 255 below */
  const float zero = exact < 255.0f ? (exact > 0.0f ? exact : 0.0f) : 255.0f;
  c->out.data[0] = scale;
  c->out.data[1] = zero + 12582912.0f - 12582912.0f;
}
#else
static gb_size gb_ranged(const gb_program *p, const gb_step *s, gb_size in) {
  (void)p, (void)s;
  return (gb_size){in.batch, in.height, 2};
}

static double gb_range_ns(const gb_width *width, const gb_call *c) {
  (void)width;
  return (double)c->in.image * (double)c->in.batch / 16.0;
}

static void gb_divide_grid(const gb_width *width, gb_call *c) {
  (void)width;
  c->units = c->rows = c->strip = c->part = 1;
}
#endif
