/* Steps of rows that depend on where in its batch a row is. */

/* Zero where `tensor` says so of a row. */
void GB(clear)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const char *is_cleared = (const char *)c->tensor;
  (void)scratch;
  for (GB(place) p = GB(place_of)(c, unit, c->out.blocks); unit < end; ++unit, GB(advance)(c, &p, c->out.blocks)) {
    const float *x = GB(at)(&c->in, &p);
    float *y = GB(at)(&c->out, &p);
    for (ptrdiff_t k = 0; k < p.count; ++k) {
      const ptrdiff_t row = p.first + k, number = row / c->queries * c->tensor_batch + row % c->queries * c->tensor_part;
      *(GB(vec) *)(y + k * GB_V) = is_cleared[number] ? (GB(vec)){0} : GB(load)(x + k * GB_V);
    }
    GB(activate)(y, p.count * GB_V, c->step);
  }
}

/* Pairs of channels of a head, half of it apart, turned by the angle of the row: in2 has cosines, in3 sines. */
void GB(rotate)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const ptrdiff_t half = c->out.blocks / c->step->group / 2; /* blocks */
  (void)scratch;
  for (GB(place) p = GB(place_of)(c, unit, c->out.blocks); unit < end; ++unit, GB(advance)(c, &p, c->out.blocks)) {
    const ptrdiff_t place = p.block % (2 * half);
    const int is_second = place >= half;
    const float *x = GB(at)(&c->in, &p), *other = x + (is_second ? -half : half) * c->in.plane;
    const float *cosines = c->in2.data + place % half * c->in2.plane, *sines = c->in3.data + place % half * c->in3.plane;
    float *y = GB(at)(&c->out, &p);
    for (ptrdiff_t k = 0, row = c->queries ? p.first % c->queries : 0; k < p.count; ++k, row = row + 1 < c->queries ? row + 1 : 0) {
      const GB(vec) turned = GB(load)(other + k * GB_V) * GB(load_loose)(sines + row * c->in3.pixel);
      const GB(vec) cosine = GB(load_loose)(cosines + row * c->in2.pixel);
      *(GB(vec) *)(y + k * GB_V) = GB_MADD(GB(load)(x + k * GB_V), cosine, is_second ? turned : -turned);
    }
    GB(activate)(y, p.count * GB_V, c->step);
  }
}

/* Pixels of images that have one each become rows, or rows such pixels: units are blocks. */
void GB(flatten)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const ptrdiff_t count = c->in.batch * c->in.width; /* one of them is 1 */
  const ptrdiff_t x_step = c->in.batch > 1 ? c->in.image : c->in.pixel, y_step = c->out.batch > 1 ? c->out.image : c->out.pixel;
  (void)scratch;
  for (; unit < end; ++unit) {
    const float *x = c->in.data + unit * c->in.plane;
    float *y = c->out.data + unit * c->out.plane;
    for (ptrdiff_t k = 0; k < count; ++k, x += x_step, y += y_step) {
      *(GB(vec) *)y = GB(load)(x);
      GB(activate)(y, GB_V, c->step);
    }
  }
}
