/* Depthwise convolutions of bfloat16 images. A pixel of a block has 16 pairs of channels. The first
 * channels of all pairs (the lower halves) become one vector of floats, and the second channels
 * (the upper halves) become another one. Weights and addends are in the same order. */
#ifdef GB_V
#if GB_V == 16
enum { GB_PIXELS_AT_ONCE = 8 };

GK_INLINE GB(vec) gb_lower_halves(GB(bits) pairs) { return (GB(vec))(pairs << 16); }
GK_INLINE GB(vec) gb_upper_halves(GB(bits) pairs) {
  return (GB(vec))(pairs & (int32_t)0xffff0000);
}

/* Joins two vectors to a pixel: the lower halves of pairs, and the upper halves. */
GK_INLINE gb_narrow_pixel gb_joined_pairs(GB(vec) lower, GB(vec) upper) {
  static const uint16_t order[GB_PAIR] __attribute__((aligned(64))) = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const gb_narrow_pixel apart = gb_narrowed_pair(lower, upper);
  gb_narrow_pixel joined;
  __asm__("vpermw %1, %2, %0"
          : "=v"(joined)
          : "v"(apart), "v"(*(const gb_narrow_pixel *)(const void *)order));
  return joined;
}

/* The sums of eight consecutive pixels, for kernels with K columns and stride S. If K is 0, for any
 * kernel. */
GK_INLINE void gb_sum_pairs(const gb_call *c, const float *x, const float *w, const float *bias,
                            GB(vec) *to, const int K, const int S) {
  enum { R = GB_PIXELS_AT_ONCE };
  const gb_step *s = c->step;
  const ptrdiff_t columns = K ? K : s->kernel[1], stride = K ? S : s->stride[1],
                  apart = (K ? 1 : s->dilation[1]) * GB_V;
  GB(vec) lower[R], upper[R];
  GB_FOR_PIXELS(r) {
    lower[r] = GB(load)(bias);
    upper[r] = GB(load)(bias + GB_V);
  }
  for (ptrdiff_t i = 0; i < s->kernel[0]; ++i, x += s->dilation[0] * c->in.row) {
    if (!K) {
      for (ptrdiff_t j = 0; j < columns; ++j, w += GB_PAIR)
        GB_FOR_PIXELS(r) {
          const GB(bits) both = *(const GB(bits) *)(x + r * stride * GB_V + j * apart);
          lower[r] = GB_MADD(gb_lower_halves(both), GB(load)(w), lower[r]);
          upper[r] = GB_MADD(gb_upper_halves(both), GB(load)(w + GB_V), upper[r]);
        }
      continue;
    }
    /* Each pixel is converted to float only once for all windows that contain it. */
#pragma GCC unroll 24
    for (int p = 0; p < (R - 1) * S + K; ++p) {
      const GB(bits) both = *(const GB(bits) *)(x + p * GB_V);
      const GB(vec) low = gb_lower_halves(both), high = gb_upper_halves(both);
      GB_FOR_PIXELS(r) {
        const int j = p - r * S;
        if (j < 0 || j >= K) continue;
        lower[r] = GB_MADD(low, GB(load)(w + j * GB_PAIR), lower[r]);
        upper[r] = GB_MADD(high, GB(load)(w + j * GB_PAIR + GB_V), upper[r]);
      }
    }
    w += K * GB_PAIR;
  }
  GB_FOR_PIXELS(r) {
    to[r] = lower[r];
    to[R + r] = upper[r];
  }
}

typedef void gb_pairs_function(const gb_call *c, const float *x, const float *w, const float *bias,
                               GB(vec) *to);
#define GB_PAIRS_FUNCTION(name, K, S)                                                   \
  static void name(const gb_call *c, const float *x, const float *w, const float *bias, \
                   GB(vec) *to) {                                                       \
    gb_sum_pairs(c, x, w, bias, to, K, S);                                              \
  }
GB_PAIRS_FUNCTION(gb_pairs_3, 3, 1)
GB_PAIRS_FUNCTION(gb_pairs_3_2, 3, 2)
GB_PAIRS_FUNCTION(gb_pairs_5, 5, 1)
GB_PAIRS_FUNCTION(gb_pairs_5_2, 5, 2)
GB_PAIRS_FUNCTION(gb_pairs_7, 7, 1)
GB_PAIRS_FUNCTION(gb_pairs_of_any, 0, 0)
#undef GB_PAIRS_FUNCTION

static gb_pairs_function *gb_pairs_of(const gb_step *s) {
  const int columns = s->kernel[1], stride = s->stride[1];
  if (s->dilation[1] != 1 || stride > 2) return gb_pairs_of_any;
  if (columns == 3) return stride == 1 ? gb_pairs_3 : gb_pairs_3_2;
  if (columns == 5) return stride == 1 ? gb_pairs_5 : gb_pairs_5_2;
  return columns == 7 && stride == 1 ? gb_pairs_7 : gb_pairs_of_any;
}

void GB(depthwise_narrow)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  enum { R = GB_PIXELS_AT_ONCE };
  const gb_step *s = c->step;
  const ptrdiff_t taps = s->kernel[0] * s->kernel[1];
  (void)scratch;
  const gb_narrow_end finish = gb_end_of(c, 0);
  const int is_finished = GB(is_finished)(s);
  gb_pairs_function *sum = gb_pairs_of(s);
  GB(vec) sums[2 * R]; /* the lower halves of pairs for all pixels, then the upper halves */
  for (GB(place) at = GB(place_of)(c, unit, c->out.blocks); unit < end;
       ++unit, GB(advance)(c, &at, c->out.blocks)) {
    const float *w = c->weights + at.block * taps * GB_PAIR;
    const float *x = c->in.data + at.image * c->in.image + at.block * c->in.plane +
                     (at.row * s->stride[0] - s->pads[0]) * c->in.row +
                     (at.first * s->stride[1] - s->pads[1]) * GB_V;
    const gb_narrow_pixel lanes = gb_narrow_lanes(c->out.channels - at.block * GB_PAIR);
    float bias[GB_PAIR] __attribute__((aligned(64)));
    for (int v = 0; v < GB_PAIR; ++v)
      bias[v] = c->bias ? c->bias[at.block * GB_PAIR + v % GB_V * 2 + v / GB_V] : 0.0f;
    float *y = GB(at)(&c->out, &at);
    for (ptrdiff_t k = 0; k < at.count; k += R) {
      const ptrdiff_t n = at.count - k < R ? at.count - k : R;
      sum(c, x + k * s->stride[1] * GB_V, w, bias, sums);
      if (!is_finished) GB(activate)((float *)sums, 2 * R * GB_V, s);
      for (ptrdiff_t r = 0; r < n; ++r) {
        GB(vec) low = sums[r], high = sums[R + r];
        if (finish.ending == GB_BOUNDED) {
          low = gb_ended(low, &finish, GB_BOUNDED);
          high = gb_ended(high, &finish, GB_BOUNDED);
        } else if (finish.ending == GB_GATED) {
          low = gb_ended(low, &finish, GB_GATED);
          high = gb_ended(high, &finish, GB_GATED);
        }
        *(gb_narrow_pixel *)(y + (k + r) * GB_V) = gb_joined_pairs(low, high) & lanes;
      }
    }
  }
}

/* Packs weights [out, 1, rows, columns] as [block][row][column][half of a pair][pair]. */
void GB(pack_pairs)(const float *w, float *to, const gb_step *s, ptrdiff_t in, ptrdiff_t out) {
  const ptrdiff_t taps = s->kernel[0] * s->kernel[1];
  (void)in;
  for (ptrdiff_t o = 0; o < out; ++o)
    for (ptrdiff_t k = 0; k < taps; ++k)
      to[(o / GB_PAIR * taps + k) * GB_PAIR + o % 2 * GB_V + o % GB_PAIR / 2] = w[o * taps + k];
}
#endif

#else
static ptrdiff_t gb_pair_floats(const gb_width *width, const gb_step *s, ptrdiff_t in,
                                ptrdiff_t out) {
  (void)in;
  return gb_rounded(out, 2 * width->vector) * s->kernel[0] * s->kernel[1];
}

static double gb_pairs_ns(const gb_width *width, const gb_call *c) {
  enum { GB_WRITTEN = 16 }; /* numbers written in a nanosecond */
  return gb_products(c) / (gb_speed(width) / 2) + gb_made(c) / GB_WRITTEN;
}
#endif
