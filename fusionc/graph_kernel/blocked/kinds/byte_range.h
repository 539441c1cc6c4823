/* The grid of a quantization at run time, as onnxruntime's DynamicQuantizeLinear computes it. */
#ifdef GB_V
/* Units are rows of blocks of the result. NaN is ignored: the comparison gives the second operand
 * for it. If there is nothing else, the least number is infinity, and the largest minus infinity.
 * Rows of batches lie side by side in the image. */
void GB(byte_range)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const ptrdiff_t rows = c->in.batch == c->out.batch ? c->in.height : 1,
                  each = c->in.width * rows * c->in.batch / (c->out.batch * c->out.height);
  (void)scratch;
  for (GB(place) at = GB(place_of)(c, unit, c->out.blocks); unit < end;
       ++unit, GB(advance)(c, &at, c->out.blocks)) {
    GB(place) from = {.row = at.row, .block = at.block, .image = at.image};
    if (c->in.batch != c->out.batch || c->in.height != c->out.height)
      from = (GB(place)){.first = (at.image * c->out.height + at.row) * each, .block = at.block};
    GB(vec) least = GB(all)(INFINITY), largest = -least;
    if (c->in.is_planar) {
      for (ptrdiff_t v = 0; v < GB_V && at.block * GB_V + v < c->in.channels; ++v) {
        from.block = at.block * GB_V + v;
        const float *x = GB(at)(&c->in, &from);
        for (ptrdiff_t k = 0; k < each; ++k) {
          least[v] = x[k] < least[v] ? x[k] : least[v];
          largest[v] = x[k] > largest[v] ? x[k] : largest[v];
        }
      }
    } else {
      const float *x = GB(at)(&c->in, &from);
      GB(vec) low[4] = {least, least, least, least}, high[4] = {largest, largest, largest, largest};
      ptrdiff_t k = 0;
      for (; k + 4 <= each; k += 4, x += 4 * GB_V)
        _Pragma("GCC unroll 4") for (int n = 0; n < 4; ++n) {
          low[n] = GB_MIN(GB(load)(x + n * GB_V), low[n]);
          high[n] = GB_MAX(GB(load)(x + n * GB_V), high[n]);
        }
      for (; k < each; ++k, x += GB_V) {
        low[0] = GB_MIN(GB(load)(x), low[0]);
        high[0] = GB_MAX(GB(load)(x), high[0]);
      }
      low[0] = GB_MIN(GB_MIN(low[0], low[1]), GB_MIN(low[2], low[3]));
      high[0] = GB_MAX(GB_MAX(high[0], high[1]), GB_MAX(high[2], high[3]));
      const ptrdiff_t left = c->in.channels - at.block * GB_V;
      for (int v = 0; v < GB_V && v < left; ++v) {
        least[v] = low[0][v];
        largest[v] = high[0][v];
      }
    }
    float *y = GB(at)(&c->out, &(GB(place)){.row = at.row, .block = at.block, .image = at.image});
    *(GB(vec) *)y = least;
    *(GB(vec) *)(y + GB_V) = largest;
  }
}

void GB(byte_grid)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  GB(vec) low = GB(all)(INFINITY), high = -low;
  float least = INFINITY, largest = -INFINITY;
  (void)scratch;
  (void)unit;
  (void)end;
  for (GB(place) at = {0}; at.image < c->in.batch; ++at.image)
    for (at.block = 0; at.block < c->in.blocks; ++at.block)
      for (at.row = 0; at.row < c->in.height; ++at.row) {
        const float *x = GB(at)(&c->in, &at);
        low = GB_MIN(GB(load)(x), low);
        high = GB_MAX(GB(load)(x + GB_V), high);
      }
  for (int v = 0; v < GB_V; ++v) {
    least = low[v] < least ? low[v] : least;
    largest = high[v] > largest ? high[v] : largest;
  }
  /* NaN if there was nothing else; otherwise the range includes 0 */
  least = least > largest ? NAN : least < 0.0f ? least : 0.0f;
  largest = largest > 0.0f ? largest : 0.0f;
  const float scale = least == largest ? 1.0f : (largest - least) / 255.0f;
  const float exact = 0.0f - least / scale; /* NaN, of two infinities, becomes 255 */
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
