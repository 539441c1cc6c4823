/* Pools: the largest element of each window, or the mean. */
#ifdef GB_V
void GB(pool)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_step *s = c->step;
  const int is_largest = s->op == GB_MAX_POOL;
  const int is_picked = is_largest && s->kernel[0] * s->kernel[1] == 1 &&
                        !(s->pads[0] | s->pads[1] | s->pads[2] | s->pads[3]);
  (void)scratch;
  for (GB(place) p = GB(place_of)(c, unit, c->out.blocks); unit < end;
       ++unit, GB(advance)(c, &p, c->out.blocks)) {
    const float *image = c->in.data + p.image * c->in.image + p.block * c->in.plane;
    float *y = GB(at)(&c->out, &p);
    const ptrdiff_t top = p.row * s->stride[0] - s->pads[0], bottom = top + s->kernel[0];
    const gb_span rows = gb_span_of(top, s->kernel[0], c->in.height);
    if (is_picked) {
      const float *x = image + top * c->in.row;
      for (ptrdiff_t k = 0; k < p.count; ++k)
        *(GB(vec) *)(y + k * GB_V) = GB(load)(x + k * s->stride[1] * GB_V);
    }
    for (ptrdiff_t k = is_picked ? p.count : 0; k < p.count; ++k) {
      const ptrdiff_t left = k * s->stride[1] - s->pads[1], right = left + s->kernel[1];
      const gb_span columns = gb_span_of(left, s->kernel[1], c->in.width);
      GB(vec) found = GB(all)(is_largest ? -INFINITY : 0.0f);
      for (ptrdiff_t i = rows.first; i < rows.last; ++i)
        for (ptrdiff_t j = columns.first; j < columns.last; ++j) {
          const GB(vec) x = GB(load)(image + i * c->in.row + j * GB_V);
          /* If an element is NaN, the last element decides. Mostly, this is so in onnxruntime,
           * too. */
          found = is_largest ? GB_MAX(found, x) : found + x;
        }
      if (!is_largest) {
        ptrdiff_t high = rows.last - rows.first, wide = columns.last - columns.first;
        if (s->counts_border) { /* zeros of the border count, but nothing beyond the border does */
          const ptrdiff_t below = c->in.height + s->pads[2], behind = c->in.width + s->pads[3];
          high = (bottom < below ? bottom : below) - top;
          wide = (right < behind ? right : behind) - left;
        }
        found /= (float)(high * wide);
      }
      *(GB(vec) *)(y + k * GB_V) = found;
    }
    GB(activate)(y, p.count * GB_V, s);
  }
}

#else
/* The estimated time. It has a lower bound, because even with few taps all pixels are read from
 * memory. */
static double gb_pool_ns(const gb_width *width, const gb_call *c) {
  (void)width;
  return gb_made(c) * (0.6 + gb_taps(c->step) / 8.0);
}
#endif
