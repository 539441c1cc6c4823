/* Elementwise steps on bytes, and pools of bytes. */
#ifdef GB_V
void GB(byte_add)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const float first = c->step->factor, second = c->step->factor2, addend = c->step->addend;
  (void)scratch;
  for (GB(place) at = GB(place_of)(c, unit, c->out.blocks); unit < end;
       ++unit, GB(advance)(c, &at, c->out.blocks)) {
    const uint8_t *a = (const uint8_t *)GB(at)(&c->in, &at);
    const uint8_t *b = (const uint8_t *)GB(at)(&c->in2, &at);
    uint8_t *y = (uint8_t *)GB(at)(&c->out, &at);
    for (ptrdiff_t k = 0; k < at.count * GB_BLOCK; k += 32)
      GB(add_bytes)(a + k, b + k, y + k, first, second, addend, c->step);
  }
}

void GB(byte_clip)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const uint8_t least = (uint8_t)c->step->least, most = (uint8_t)c->step->most;
  (void)scratch;
  for (GB(place) at = GB(place_of)(c, unit, c->out.blocks); unit < end;
       ++unit, GB(advance)(c, &at, c->out.blocks)) {
    const uint8_t *x = (const uint8_t *)GB(at)(&c->in, &at);
    uint8_t *y = (uint8_t *)GB(at)(&c->out, &at);
    for (ptrdiff_t k = 0; k < at.count * GB_BLOCK; ++k) {
      const uint8_t v = x[k] < least ? least : x[k];
      y[k] = v > most ? most : v;
    }
  }
}

void GB(byte_max_pool)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_step *s = c->step;
  (void)scratch;
  for (GB(place) at = GB(place_of)(c, unit, c->out.blocks); unit < end;
       ++unit, GB(advance)(c, &at, c->out.blocks)) {
    const uint8_t *image =
        (const uint8_t *)(c->in.data + at.image * c->in.image + at.block * c->in.plane);
    uint8_t *y = (uint8_t *)GB(at)(&c->out, &at);
    const gb_span rows =
        gb_span_of(at.row * s->stride[0] - s->pads[0], s->kernel[0], c->in.height);
    for (ptrdiff_t k = 0; k < at.count; ++k, y += GB_BLOCK) {
      const gb_span columns =
          gb_span_of(k * s->stride[1] - s->pads[1], s->kernel[1], c->in.width);
      uint8_t largest[GB_BLOCK] = {0};
      for (ptrdiff_t i = rows.first; i < rows.last; ++i)
        for (ptrdiff_t j = columns.first; j < columns.last; ++j) {
          const uint8_t *x = image + 4 * (i * c->in.row + j * c->in.pixel);
          for (int v = 0; v < GB_BLOCK; ++v) largest[v] = x[v] > largest[v] ? x[v] : largest[v];
        }
      memcpy(y, largest, GB_BLOCK);
    }
  }
}

void GB(byte_average)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_step *s = c->step;
  const int pixels = (int)(c->in.height * c->in.width);
  float factors[GB_BLOCK];
  const float addends[GB_BLOCK] = {0};
  (void)scratch;
  for (int v = 0; v < GB_BLOCK; ++v) factors[v] = s->factor / (s->factor2 * (float)pixels);
  for (GB(place) at = GB(place_of)(c, unit, c->out.blocks); unit < end;
       ++unit, GB(advance)(c, &at, c->out.blocks)) {
    const uint8_t *x =
        (const uint8_t *)(c->in.data + at.image * c->in.image + at.block * c->in.plane);
    uint8_t *y = (uint8_t *)GB(at)(&c->out, &at);
    int32_t sums[GB_BLOCK];
    for (int v = 0; v < GB_BLOCK; ++v) sums[v] = -s->zero_in * pixels;
    for (ptrdiff_t i = 0; i < c->in.height; ++i)
      for (ptrdiff_t j = 0; j < c->in.width; ++j)
        for (int v = 0; v < GB_BLOCK; ++v)
          sums[v] += x[4 * (i * c->in.row + j * c->in.pixel) + v];
    for (int half = 0; half < GB_BLOCK; half += 32)
      GB(requantize)(sums + half, factors + half, addends, s->zero, 0, 255, y + half, 1);
  }
}
#endif
