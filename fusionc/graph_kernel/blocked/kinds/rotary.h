/* Rotary position embedding of rows. */
#ifdef GB_V
/* Rotates pairs of channels of each head by an angle that depends on the row and the pair. The two
 * channels of a pair are half a head apart. in2 contains the cosines of the angles, and in3
 * contains the sines. */
void GB(rotate)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const ptrdiff_t half = c->out.blocks / c->step->heads / 2; /* blocks */
  (void)scratch;
  for (GB(place) p = GB(place_of)(c, unit, c->out.blocks); unit < end;
       ++unit, GB(advance)(c, &p, c->out.blocks)) {
    const ptrdiff_t place = p.block % (2 * half);
    const int is_second = place >= half;
    const float *x = GB(at)(&c->in, &p), *other = x + (is_second ? -half : half) * c->in.plane;
    const float *cosines = c->in2.data + place % half * c->in2.plane,
                *sines = c->in3.data + place % half * c->in3.plane;
    float *y = GB(at)(&c->out, &p);
    for (ptrdiff_t k = 0, row = c->queries ? p.first % c->queries : 0; k < p.count;
         ++k, row = row + 1 < c->queries ? row + 1 : 0) {
      const GB(vec) turned =
          GB(load)(other + k * GB_V) * GB(load_loose)(sines + row * c->in3.pixel);
      const GB(vec) cosine = GB(load_loose)(cosines + row * c->in2.pixel);
      *(GB(vec) *)(y + k * GB_V) =
          GB_MADD(GB(load)(x + k * GB_V), cosine, is_second ? turned : -turned);
    }
    GB(activate)(y, p.count * GB_V, c->step);
  }
}

#else
static const char *gb_rotary_fault(const gk_kernel *kernel, const gb_step *s, const gb_size *sizes,
                                   gb_size out, const int64_t *const *input_sizes) {
  const gb_program *p = kernel->program;
  const ptrdiff_t rows = gb_rows_of(p, s->in, sizes);
  (void)out, (void)input_sizes;
  return gb_rows_of(p, s->in2, sizes) < rows || gb_rows_of(p, s->in3, sizes) < rows
             ? "there are fewer cosines or sines than positions"
             : NULL;
}
#endif
