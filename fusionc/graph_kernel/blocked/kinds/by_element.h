/* Elementwise steps. A unit (the smallest part of the work) is a row of a block of channels, or
 * some consecutive pixels of a block. */
#ifdef GB_V
void GB(elementwise)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_step *s = c->step;
  (void)scratch;
  for (GB(place) p = GB(place_of)(c, unit, c->out.blocks); unit < end;
       ++unit, GB(advance)(c, &p, c->out.blocks)) {
    const ptrdiff_t n = p.count * GB_V;
    const float *a = GB(at)(&c->in, &p), *b = NULL;
    float *y = GB(at)(&c->out, &p);
    if (s->op == GB_SCALE) b = c->in2.data + p.image * c->in2.image + p.block * c->in2.plane;
    else if (c->in2.data) b = GB(at)(&c->in2, &p);
    if (s->op == GB_ADD)
      for (ptrdiff_t i = 0; i < n; i += GB_V)
        *(GB(vec) *)(y + i) = GB(load)(a + i) + GB(load)(b + i);
    else if (s->op == GB_MUL)
      for (ptrdiff_t i = 0; i < n; i += GB_V)
        *(GB(vec) *)(y + i) = GB(load)(a + i) * GB(load)(b + i);
    else if (s->op == GB_SCALE)
      for (ptrdiff_t i = 0; i < n; i += GB_V) *(GB(vec) *)(y + i) = GB(load)(a + i) * GB(load)(b);
    else if (y != a) memcpy(y, a, (size_t)n * sizeof *y);
    GB(activate)(y, n, s);
  }
}

#endif
