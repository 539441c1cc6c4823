/* Enlarges images: each pixel becomes a rectangle of equal pixels. */
#ifdef GB_V
/* Copies each pixel of the result from its place in the smaller image. */
void GB(resize)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  (void)scratch;
  for (GB(place) p = GB(place_of)(c, unit, c->out.blocks); unit < end;
       ++unit, GB(advance)(c, &p, c->out.blocks)) {
    GB(place) source = p;
    source.row = p.row / c->step->factors[0];
    const float *x = GB(at)(&c->in, &source);
    float *y = GB(at)(&c->out, &p);
    for (ptrdiff_t k = 0; k < p.count; ++k)
      *(GB(vec) *)(y + k * GB_V) = GB(load)(x + k / c->step->factors[1] * GB_V);
    GB(activate)(y, p.count * GB_V, c->step);
  }
}

#else
static gb_size gb_resized(const gb_program *p, const gb_step *s, gb_size in) {
  (void)p;
  return (gb_size){in.batch, in.height * s->factors[0], in.width * s->factors[1]};
}
#endif
