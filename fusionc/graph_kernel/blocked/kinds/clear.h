/* Sets rows to zero. */
#ifdef GB_V
/* Sets the rows that `tensor` selects to zero, and copies the others. */
void GB(clear)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const char *is_cleared = (const char *)c->tensor;
  (void)scratch;
  for (GB(place) p = GB(place_of)(c, unit, c->out.blocks); unit < end;
       ++unit, GB(advance)(c, &p, c->out.blocks)) {
    const float *x = GB(at)(&c->in, &p);
    float *y = GB(at)(&c->out, &p);
    for (ptrdiff_t k = 0; k < p.count; ++k) {
      const ptrdiff_t row = p.first + k, batch = row / c->queries;
      const ptrdiff_t number = batch * c->tensor_batch + row % c->queries * c->tensor_part;
      *(GB(vec) *)(y + k * GB_V) = is_cleared[number] ? (GB(vec)){0} : GB(load)(x + k * GB_V);
    }
    GB(activate)(y, p.count * GB_V, c->step);
  }
}

#else
static const char *gb_clear_fault(const gk_kernel *kernel, const gb_step *s, const gb_size *sizes,
                                  gb_size out, const int64_t *const *input_sizes) {
  const int64_t *n = input_sizes[s->tensor];
  const int fits = (n[0] == 1 || n[0] == out.batch) &&
                   (n[1] == 1 || n[1] == gb_rows_of(kernel->program, s->in, sizes));
  return fits && n[2] == 1 ? NULL : "the condition does not fit the rows";
}
#endif
