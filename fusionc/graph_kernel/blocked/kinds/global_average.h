/* The mean of all pixels of an image. A unit is a block of channels. */
#ifdef GB_V
void GB(global_average)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  (void)scratch;
  for (; unit < end; ++unit) {
    GB(place) p = {0, c->in.width, 0, unit % c->in.blocks, unit / c->in.blocks, 0, 0};
    float *y = GB(at)(&c->out, &p);
    GB(vec) sum = {0};
    /* Each row has its own sum: otherwise rounding errors would grow with the whole image. */
    for (p.row = 0; p.row < c->in.height; ++p.row) {
      const float *x = GB(at)(&c->in, &p);
      GB(vec) even = {0}, odd = {0};
      ptrdiff_t k = 0;
      for (; k + 1 < p.count; k += 2) {
        even += GB(load)(x + k * GB_V);
        odd += GB(load)(x + k * GB_V + GB_V);
      }
      if (k < p.count) even += GB(load)(x + k * GB_V);
      sum += even + odd;
    }
    *(GB(vec) *)y = sum / (float)(c->in.height * c->in.width);
    GB(activate)(y, GB_V, c->step);
  }
}

#else
static gb_size gb_averaged(const gb_program *p, const gb_step *s, gb_size in) {
  (void)p, (void)s;
  return (gb_size){in.batch, 1, 1};
}

static double gb_average_ns(const gb_width *width, const gb_call *c) {
  (void)width;
  return (double)c->in.image * (double)c->in.batch / 8.0;
}
#endif
