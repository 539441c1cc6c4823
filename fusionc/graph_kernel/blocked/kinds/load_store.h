/* The way of images and rows into the layout of blocks, and out of it. */
#ifdef GB_V
void GB(load_rows)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_image *to = &c->out;
  const ptrdiff_t own = to->is_planar ? 1 : GB_V, plane = to->height * to->width;
  (void)scratch;
  for (GB(place) p = GB(place_of)(c, unit, to->blocks); unit < end;
       ++unit, GB(advance)(c, &p, to->blocks)) {
    const ptrdiff_t left = to->channels - p.block * own, channels = left < own ? left : own;
    float *y = GB(at)(to, &p);
    if (c->step->is_channels_last) {
      const float *row = c->tensor +
                         ((p.image * to->height + p.row) * to->width + p.first) * to->channels +
                         p.block * own;
      for (ptrdiff_t x = 0; x < p.count; ++x, row += to->channels)
        for (ptrdiff_t v = 0; v < GB_V; ++v) y[x * GB_V + v] = v < channels ? row[v] : 0.0f;
      continue;
    }
    const float *from =
        c->tensor + ((p.image * to->channels + p.block * own) * to->height + p.row) * to->width;
    if (to->is_planar) {
      memcpy(y, from, (size_t)p.count * sizeof *y);
      continue;
    }
    ptrdiff_t x = 0;
    for (; x + 4 <= p.count && channels == GB_V; x += 4)
      for (ptrdiff_t v = 0; v < GB_V; v += 4)
        gb_transpose(from + v * plane + x, plane, y + x * GB_V + v, GB_V);
    for (; x < p.count; ++x)
      for (ptrdiff_t v = 0; v < GB_V; ++v)
        y[x * GB_V + v] = v < channels ? from[v * plane + x] : 0.0f;
  }
}

void GB(store_rows)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_image *in = &c->in;
  const ptrdiff_t plane = in->height * in->width;
  (void)scratch;
  for (GB(place) p = GB(place_of)(c, unit, in->blocks); unit < end;
       ++unit, GB(advance)(c, &p, in->blocks)) {
    const ptrdiff_t channels =
        in->channels - p.block * GB_V < GB_V ? in->channels - p.block * GB_V : GB_V;
    const float *x = GB(at)(in, &p);
    if (c->step->is_channels_last) {
      float *row = c->tensor +
                   ((p.image * in->height + p.row) * in->width + p.first) * in->channels +
                   p.block * GB_V;
      for (ptrdiff_t i = 0; i < p.count; ++i, row += in->channels)
        for (ptrdiff_t v = 0; v < channels; ++v) row[v] = x[i * GB_V + v];
      continue;
    }
    float *to =
        c->tensor + ((p.image * in->channels + p.block * GB_V) * in->height + p.row) * in->width;
    ptrdiff_t k = 0;
    for (; k + 4 <= p.count && channels == GB_V; k += 4)
      for (ptrdiff_t v = 0; v < GB_V; v += 4)
        gb_transpose(x + k * GB_V + v, GB_V, to + v * plane + k, plane);
    for (ptrdiff_t v = 0; v < channels; ++v)
      for (ptrdiff_t i = k; i < p.count; ++i) to[v * plane + i] = x[i * GB_V + v];
  }
}
#endif
