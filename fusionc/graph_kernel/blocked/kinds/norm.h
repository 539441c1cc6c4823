/* Normalization over the channels of each pixel. */
#ifdef GB_V
GK_INLINE float GB(total)(GB(vec) x) {
  float sum = 0.0f;
  for (int v = 0; v < GB_V; ++v) sum += x[v];
  return sum;
}

/* Normalizes R consecutive pixels: so many that whole cache lines are read. The lanes after the
 * last channel do not count in sums, because they may not be zero: an earlier activation may make
 * another number of zero. For a root mean square norm, the mean is taken as 0. */
GK_INLINE void GB(normalize_pixels)(const gb_call *c, const float *x, float *y, const int R) {
  const float count = (float)c->in.channels;
  const ptrdiff_t last = c->in.blocks - 1;
  const GB(bits) lanes = *(const GB(bits) *)c->lanes;
  GB(vec) sums[8] = {0}, squares[8] = {0};
  if (c->step->op == GB_LAYER_NORM) {
    for (ptrdiff_t b = 0; b < last; ++b)
      GB_FOR_PIXELS(r) sums[r] += GB(load)(x + b * c->in.plane + r * GB_V);
    GB_FOR_PIXELS(r)
      sums[r] += (GB(vec))((GB(bits))GB(load)(x + last * c->in.plane + r * GB_V) & lanes);
    GB_FOR_PIXELS(r) sums[r] = GB(all)(GB(total)(sums[r]) / count); /* the means */
  }
  for (ptrdiff_t b = 0; b < last; ++b)
    GB_FOR_PIXELS(r) {
      const GB(vec) d = GB(load)(x + b * c->in.plane + r * GB_V) - sums[r];
      squares[r] = GB_MADD(d, d, squares[r]);
    }
  GB_FOR_PIXELS(r) {
    const GB(vec) d =
        (GB(vec))((GB(bits))(GB(load)(x + last * c->in.plane + r * GB_V) - sums[r]) & lanes);
    squares[r] =
        GB(all)(1.0f / sqrtf(GB(total)(GB_MADD(d, d, squares[r])) / count + c->step->epsilon));
  }
  for (ptrdiff_t b = 0; b <= last; ++b) {
    const GB(vec) factor = c->weights ? GB(load)(c->weights + b * GB_V) : GB(all)(1.0f);
    const GB(vec) bias = c->bias ? GB(load)(c->bias + b * GB_V) : (GB(vec)){0};
    GB_FOR_PIXELS(r) {
      const GB(vec) made =
          GB_MADD((GB(load)(x + b * c->in.plane + r * GB_V) - sums[r]) * squares[r], factor, bias);
      *(GB(vec) *)(y + b * c->out.plane + r * GB_V) =
          b < last ? made : (GB(vec))((GB(bits))made & lanes);
    }
  }
}

void GB(normalize)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  (void)scratch;
  for (GB(place) p = GB(place_of)(c, unit, 1); unit < end; ++unit, GB(advance)(c, &p, 1)) {
    const float *x = GB(at)(&c->in, &p);
    float *y = GB(at)(&c->out, &p);
    ptrdiff_t k = 0;
    for (; k + 8 <= p.count; k += 8) GB(normalize_pixels)(c, x + k * GB_V, y + k * GB_V, 8);
    for (; k < p.count; ++k) GB(normalize_pixels)(c, x + k * GB_V, y + k * GB_V, 1);
    for (ptrdiff_t b = 0; b < c->in.blocks; ++b)
      GB(activate)(y + b * c->out.plane, p.count * GB_V, c->step);
  }
}

/* Packs the number of each channel. The last block is padded with zeros. */
void GB(pack_vector)(const float *w, float *to, const gb_step *s, ptrdiff_t in, ptrdiff_t out) {
  (void)s, (void)in;
  memcpy(to, w, (size_t)out * sizeof *to);
}

#else
static ptrdiff_t gb_vector_floats(const gb_width *width, const gb_step *s, ptrdiff_t in,
                                  ptrdiff_t out) {
  (void)s, (void)in;
  return gb_rounded(out, width->vector);
}

/* Makes units that have all channels, because the sums go over all channels. */
static void gb_divide_norm(const gb_width *width, gb_call *c) { gb_divide_into(width, c, 1, 0); }
#endif
