/* Transposed convolutions in bfloat16 whose windows neither overlap nor leave gaps. Each element of
 * the kernel makes one pixel of each window; this is a 1×1 convolution. */
#ifndef GB_ONE_TAP
#define GB_ONE_TAP
/* The call of the 1×1 convolution of one kernel element. Its step is written to `step`. */
static inline __attribute__((unused)) gb_call gb_one_tap(const gb_call *c, gb_step *step) {
  gb_call one = *c;
  *step = *c->step;
  for (int axis = 0; axis < 2; ++axis) step->kernel[axis] = step->stride[axis] = 1;
  one.step = step;
  one.out.height = c->in.height;
  one.out.width = c->in.width;
  one.out.row *= c->step->stride[0];
  one.out.pixel *= c->step->stride[1];
  return one;
}
#endif

#ifdef GB_V
#if GB_V == 16
void GB(transposed_narrow)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_step *s = c->step;
  gb_step step;
  gb_call one = gb_one_tap(c, &step);
  const ptrdiff_t weights = c->in.blocks * ((c->out.channels + GB_PAIR - 1) / GB_PAIR) * GB_PAIR *
                            GB_V;
  for (ptrdiff_t i = 0; i < s->kernel[0]; ++i)
    for (ptrdiff_t j = 0; j < s->kernel[1]; ++j) {
      one.weights = c->weights + (i * s->kernel[1] + j) * weights;
      one.out.data = c->out.data + i * c->out.row + j * c->out.pixel;
      GB(convolve_narrow)(&one, unit, end, scratch);
    }
}

/* Packs weights [in, out, rows, columns] so that the weights of each kernel element are
 * together. */
void GB(pack_taps)(const float *w, float *to, const gb_step *s, ptrdiff_t in, ptrdiff_t out) {
  const ptrdiff_t taps = s->kernel[0] * s->kernel[1], blocks = (in + GB_PAIR - 1) / GB_PAIR,
                  all = blocks * ((out + GB_PAIR - 1) / GB_PAIR) * GB_PAIR * GB_V;
  for (ptrdiff_t k = 0; k < taps; ++k)
    for (ptrdiff_t i = 0; i < in; ++i)
      for (ptrdiff_t o = 0; o < out; ++o)
        *gb_narrow_packed(to + k * all, o / GB_PAIR, blocks, 1, 0, o, i) =
            gb_narrow_weight(w[(i * out + o) * taps + k]);
}
#endif

#else
static void gb_divide_narrow_taps(const gb_width *width, gb_call *c) {
  gb_step step;
  gb_call one = gb_one_tap(c, &step);
  gb_divide_narrow(width, &one);
  c->is_flat = one.is_flat;
  c->part = one.part;
  c->rows = one.rows;
  c->strip = one.strip;
  c->units = one.units;
}

static double gb_narrow_taps_ns(const gb_width *width, const gb_call *c) {
  return gb_narrow_ns(width, c) / gb_taps(c->step);
}
#endif
