/* Copies images and rows into the blocked layout, and out of it. */
#ifdef GB_V
GK_INLINE uint8_t GB(quantized)(float x, float scale, int zero) {
  const float least = (float)-zero, most = (float)(255 - zero);
  float v = x / scale;
  v = v > least ? v : least; /* NaN becomes the least byte, as in onnxruntime */
  v = (v < most ? v : most) + 12582912.0f;
  int32_t bits;
  memcpy(&bits, &v, sizeof bits);
  return (uint8_t)(bits - 0x4B400000 + zero);
}

/* Quantizes one to four channels of each pixel to four adjacent bytes. */
static void GB(load_pixels)(const float *from, ptrdiff_t plane, ptrdiff_t channels, uint32_t *to,
                            ptrdiff_t count, float scale, int zero) {
  for (ptrdiff_t v = 0; v < channels; ++v, from += plane)
    for (ptrdiff_t x = 0; x < count; ++x) {
      const uint32_t byte = GB(quantized)(from[x], scale, zero);
      to[x] = v ? to[x] | byte << 8 * v : byte;
    }
}

/* Loads the bytes of a tensor, or quantizes a float32 tensor to bytes. */
static void GB(load_bytes)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end) {
  const gb_image *to = &c->out;
  const gb_step *s = c->step;
  const ptrdiff_t own = to->own, plane = to->height * to->width,
                  apart = s->is_channels_last ? 1 : plane;
  const gb_grid grid = gb_grid_of(c, s->scale, s->zero);
  const int is_quantized = c->in3.data || s->scale != 0.0f;
  for (GB(place) p = GB(place_of)(c, unit, to->blocks); unit < end;
       ++unit, GB(advance)(c, &p, to->blocks)) {
    const ptrdiff_t left = to->channels - p.block * own, channels = left < own ? left : own;
    uint8_t *y = (uint8_t *)GB(at)(to, &p);
    const ptrdiff_t row = (p.image * to->height + p.row) * to->width + p.first;
    const ptrdiff_t first =
        s->is_channels_last ? row * to->channels + p.block * own
                            : (p.image * to->channels + p.block * own) * plane +
                                  (p.row * to->width + p.first);
    const ptrdiff_t step = s->is_channels_last ? to->channels : 1;
    const uint8_t *bytes = (const uint8_t *)c->tensor + first;
    const float *floats = c->tensor + first;
    if (to->is_planar && is_quantized) {
      GB(load_pixels)(floats, plane, channels, (uint32_t *)(void *)y, p.count, grid.scale,
                      grid.zero);
    } else if (s->is_channels_last)
      for (ptrdiff_t x = 0; x < p.count; ++x) {
        uint8_t *made = y + x * own;
        if (is_quantized)
          for (ptrdiff_t v = 0; v < channels; ++v)
            made[v] = GB(quantized)(floats[x * step + v], grid.scale, grid.zero);
        else
          for (ptrdiff_t v = 0; v < channels; ++v)
            made[v] = bytes[x * step + v] ^ (uint8_t)s->flip;
        for (ptrdiff_t v = channels; v < own; ++v) made[v] = 0;
      }
    else
      for (ptrdiff_t x = 0; x < p.count; x += 64) {
        const ptrdiff_t count = p.count - x < 64 ? p.count - x : 64;
        uint8_t line[64];
        for (ptrdiff_t v = 0; v < own; ++v) {
          if (v >= channels) memset(line, 0, sizeof line);
          else if (is_quantized)
            for (ptrdiff_t k = 0; k < count; ++k)
              line[k] = GB(quantized)(floats[v * apart + x + k], grid.scale, grid.zero);
          else
            for (ptrdiff_t k = 0; k < count; ++k)
              line[k] = bytes[v * apart + x + k] ^ (uint8_t)s->flip;
          for (ptrdiff_t k = 0; k < count; ++k) y[(x + k) * own + v] = line[k];
        }
      }
  }
}

static void GB(store_bytes)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end) {
  const gb_image *in = &c->in;
  const ptrdiff_t own = in->own, plane = in->height * in->width;
  const uint8_t flip = (uint8_t)c->step->flip;
  for (GB(place) p = GB(place_of)(c, unit, in->blocks); unit < end;
       ++unit, GB(advance)(c, &p, in->blocks)) {
    const ptrdiff_t left = in->channels - p.block * own, channels = left < own ? left : own;
    const uint8_t *x = (const uint8_t *)GB(at)(in, &p);
    const ptrdiff_t row = (p.image * in->height + p.row) * in->width + p.first;
    uint8_t *to = (uint8_t *)c->tensor;
    if (c->step->is_channels_last)
      for (ptrdiff_t k = 0; k < p.count; ++k)
        for (ptrdiff_t v = 0; v < channels; ++v)
          to[(row + k) * in->channels + p.block * own + v] = x[k * own + v] ^ flip;
    else
      for (ptrdiff_t v = 0; v < channels; ++v)
        for (ptrdiff_t k = 0; k < p.count; ++k)
          to[(p.image * in->channels + p.block * own + v) * plane + p.row * in->width + p.first +
             k] = x[k * own + v] ^ flip;
  }
}

/* The number of pixels of a block that are converted before they are transposed. */
enum { GB(IN_LINE) = 16 };

static void GB(load_float16)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end) {
  const gb_image *to = &c->out;
  const uint16_t *tensor = (const uint16_t *)(const void *)c->tensor;
  const ptrdiff_t own = to->is_planar ? 1 : GB_V, plane = to->height * to->width;
  float lines[GB_V * GB(IN_LINE)];
  for (GB(place) p = GB(place_of)(c, unit, to->blocks); unit < end;
       ++unit, GB(advance)(c, &p, to->blocks)) {
    const ptrdiff_t left = to->channels - p.block * own, channels = left < own ? left : own;
    float *y = GB(at)(to, &p);
    if (c->step->is_channels_last) {
      const uint16_t *row =
          tensor + ((p.image * to->height + p.row) * to->width + p.first) * to->channels +
          p.block * own;
      for (ptrdiff_t x = 0; x < p.count; ++x, row += to->channels, y += GB_V) {
        GB(widen_float16)(row, y, channels);
        for (ptrdiff_t v = channels; v < GB_V; ++v) y[v] = 0.0f;
      }
      continue;
    }
    const uint16_t *from =
        tensor + ((p.image * to->channels + p.block * own) * to->height + p.row) * to->width +
        p.first;
    if (to->is_planar) {
      GB(widen_float16)(from, y, p.count);
      continue;
    }
    if (channels < GB_V) memset(lines, 0, sizeof lines);
    for (ptrdiff_t x = 0; x < p.count; x += GB(IN_LINE)) {
      const ptrdiff_t count = p.count - x < GB(IN_LINE) ? p.count - x : GB(IN_LINE);
      for (ptrdiff_t v = 0; v < channels; ++v)
        GB(widen_float16)(from + v * plane + x, lines + v * GB(IN_LINE), count);
      ptrdiff_t k = 0;
      for (; k + 4 <= count; k += 4)
        for (ptrdiff_t v = 0; v < GB_V; v += 4)
          gb_transpose(lines + v * GB(IN_LINE) + k, GB(IN_LINE), y + (x + k) * GB_V + v, GB_V);
      for (; k < count; ++k)
        for (ptrdiff_t v = 0; v < GB_V; ++v) y[(x + k) * GB_V + v] = lines[v * GB(IN_LINE) + k];
    }
  }
}

static void GB(store_float16)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end) {
  const gb_image *in = &c->in;
  uint16_t *tensor = (uint16_t *)(void *)c->tensor;
  const ptrdiff_t plane = in->height * in->width;
  float lines[GB_V * GB(IN_LINE)];
  for (GB(place) p = GB(place_of)(c, unit, in->blocks); unit < end;
       ++unit, GB(advance)(c, &p, in->blocks)) {
    const ptrdiff_t left = in->channels - p.block * GB_V, channels = left < GB_V ? left : GB_V;
    const float *x = GB(at)(in, &p);
    if (c->step->is_channels_last) {
      uint16_t *row = tensor +
                      ((p.image * in->height + p.row) * in->width + p.first) * in->channels +
                      p.block * GB_V;
      for (ptrdiff_t k = 0; k < p.count; ++k, row += in->channels)
        GB(round_to_float16)(x + k * GB_V, row, channels);
      continue;
    }
    uint16_t *to = tensor +
                   ((p.image * in->channels + p.block * GB_V) * in->height + p.row) * in->width +
                   p.first;
    for (ptrdiff_t first = 0; first < p.count; first += GB(IN_LINE)) {
      const ptrdiff_t count = p.count - first < GB(IN_LINE) ? p.count - first : GB(IN_LINE);
      const float *pixels = x + first * GB_V;
      ptrdiff_t k = 0;
      for (; k + 4 <= count; k += 4)
        for (ptrdiff_t v = 0; v < GB_V; v += 4)
          gb_transpose(pixels + k * GB_V + v, GB_V, lines + v * GB(IN_LINE) + k, GB(IN_LINE));
      for (; k < count; ++k)
        for (ptrdiff_t v = 0; v < GB_V; ++v) lines[v * GB(IN_LINE) + k] = pixels[k * GB_V + v];
      for (ptrdiff_t v = 0; v < channels; ++v)
        GB(round_to_float16)(lines + v * GB(IN_LINE), to + v * plane + first, count);
    }
  }
}

void GB(load_rows)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_image *to = &c->out;
  const ptrdiff_t own = to->is_planar ? 1 : GB_V, plane = to->height * to->width;
  (void)scratch;
  if (to->bytes == 1) {
    GB(load_bytes)(c, unit, end);
    return;
  }
  if (c->is_float16) {
    GB(load_float16)(c, unit, end);
    return;
  }
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
  if (in->bytes == 1) {
    GB(store_bytes)(c, unit, end);
    return;
  }
  if (c->is_float16) {
    GB(store_float16)(c, unit, end);
    return;
  }
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
