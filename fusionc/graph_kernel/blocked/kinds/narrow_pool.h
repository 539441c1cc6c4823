/* Pools of bfloat16 images. */
#ifdef GB_V
#if GB_V == 16
void GB(pool_narrow)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_step *s = c->step;
  (void)scratch;
  for (GB(place) p = GB(place_of)(c, unit, c->out.blocks); unit < end;
       ++unit, GB(advance)(c, &p, c->out.blocks)) {
    const float *image = c->in.data + p.image * c->in.image + p.block * c->in.plane;
    float *y = GB(at)(&c->out, &p);
    const gb_span rows =
        gb_span_of(p.row * s->stride[0] - s->pads[0], s->kernel[0], c->in.height);
    for (ptrdiff_t k = 0; k < p.count; ++k) {
      const gb_span columns =
          gb_span_of(k * s->stride[1] - s->pads[1], s->kernel[1], c->in.width);
      GB(vec) lower = GB(all)(-INFINITY), upper = lower;
      for (ptrdiff_t i = rows.first; i < rows.last; ++i)
        for (ptrdiff_t j = columns.first; j < columns.last; ++j) {
          const GB(bits) both = *(const GB(bits) *)(image + i * c->in.row + j * GB_V);
          lower = GB_MAX(lower, gb_lower_halves(both));
          upper = GB_MAX(upper, gb_upper_halves(both));
        }
      /* exact, because the largest numbers already are bfloat16 */
      *(gb_narrow_pixel *)(y + k * GB_V) = gb_joined_pairs(lower, upper);
    }
  }
}

/* A unit is a vector of channels of the result. */
void GB(average_narrow)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  (void)scratch;
  for (; unit < end; ++unit) {
    const ptrdiff_t image = unit / c->out.blocks, block = unit % c->out.blocks;
    const float *x = c->in.data + image * c->in.image + block / 2 * c->in.plane +
                     block % 2 * (GB_V / 2);
    float *y = c->out.data + image * c->out.image + block * c->out.plane;
    GB(vec) sum = {0};
    /* Each row has its own sum: otherwise rounding errors would grow with the whole image. */
    for (ptrdiff_t i = 0; i < c->in.height; ++i, x += c->in.row) {
      GB(vec) row = {0};
      for (ptrdiff_t k = 0; k < c->in.width * GB_V; k += GB_V) row += gb_widened(x + k);
      sum += row;
    }
    *(GB(vec) *)y = sum / (float)(c->in.height * c->in.width);
    GB(activate)(y, GB_V, c->step);
  }
}
#endif
#endif
