/* Transposed convolutions, computed as several convolutions. */
#ifdef GB_V
/* How many elements of a kernel, in one direction, contribute to the pixels of a phase
 * (`transposed` explains the phases). */
GK_INLINE int GB(elements_of)(int kernel, int stride, int phase) {
  return kernel > phase ? (kernel - phase - 1) / stride + 1 : 0;
}

/* A transposed convolution. Each element of the kernel contributes only to every stride[0]th row
 * and every stride[1]th column of the result. The pixels in such rows and columns are called a
 * phase. A phase is an ordinary convolution with the elements that contribute to it. In this
 * convolution, later elements of the kernel read earlier rows and columns. */
void GB(transposed)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_step *s = c->step;
  const int down = s->stride[0], across = s->stride[1];
  const ptrdiff_t in_blocks = c->in.blocks / s->group, out_blocks = c->out.blocks / s->group,
                  pairs = (out_blocks + 1) / 2;
  (void)scratch;
  for (GB(place) at = GB(place_of)(c, unit, pairs * s->group); unit < end;
       ++unit, GB(advance)(c, &at, pairs * s->group)) {
    const ptrdiff_t group = at.block / pairs, pair = at.block % pairs,
                    block = group * out_blocks + 2 * pair;
    const int is_two = 2 * pair + 1 < out_blocks, phase = (int)((at.row + s->pads[0]) % down);
    const int rows = GB(elements_of)(s->kernel[0], down, phase);
    const float *row = c->in.data + at.image * c->in.image + group * in_blocks * c->in.plane +
                       (at.row + s->pads[0]) / down * c->in.row;
    ptrdiff_t before = 0; /* the number of kernel elements of the phases before */
    for (int k = 0; k < phase; ++k)
      before += (ptrdiff_t)GB(elements_of)(s->kernel[0], down, k) * s->kernel[1];
    for (int side = 0, columns; side < across; ++side, before += (ptrdiff_t)rows * columns) {
      columns = GB(elements_of)(s->kernel[1], across, side);
      const ptrdiff_t from = (s->pads[1] - side + across - 1) / across,
                      x = from * across + side - s->pads[1];
      if (x >= c->out.width) continue;
      const GB(place) to = {x, (c->out.width - x - 1) / across + 1, at.row, block, at.image, 0, 0};
      GB(tile) t = {
          .x = row + from * GB_V,
          .x_pixel = GB_V,
          .x_block = c->in.plane,
          .x_row = -c->in.row,
          .x_column = -GB_V,
          .w = c->weights +
               (before * c->out.blocks + rows * columns * block) * in_blocks * GB_V * GB_V,
          .blocks = in_blocks,
          .last = GB(last_of)(c->in.channels / s->group),
          .rows = rows,
          .columns = columns,
          .start = c->bias ? c->bias + block * GB_V : NULL,
          .y = GB(at)(&c->out, &to),
          .y_pixel = across * GB_V,
          .y_block = c->out.plane,
          .step = s,
          .lanes = GB(lanes_of)(c, block + is_two),
      };
      if (c->in2.data) {
        t.residual = GB(at)(&c->in2, &to);
        t.residual_pixel = t.y_pixel;
        t.residual_block = c->in2.plane;
      }
      GB(pixels)(&t, to.count, GB(near_tiles)[is_two], 1 + is_two);
    }
  }
}

/* Packs weights [in, out / group, rows, columns], one phase after the other. */
void GB(pack_transposed)(const float *w, float *to, const gb_step *s, ptrdiff_t in, ptrdiff_t out) {
  const ptrdiff_t taps = s->kernel[0] * s->kernel[1], own = in / s->group, made = out / s->group;
  const ptrdiff_t in_blocks = (own + GB_V - 1) / GB_V, blocks = (made + GB_V - 1) / GB_V;
  for (int down = 0; down < s->stride[0]; ++down)
    for (int across = 0; across < s->stride[1]; ++across) {
      const int rows = GB(elements_of)(s->kernel[0], s->stride[0], down);
      const int columns = GB(elements_of)(s->kernel[1], s->stride[1], across);
      const ptrdiff_t all = in_blocks * GB_V * rows * columns;
      for (ptrdiff_t g = 0; g < s->group; ++g, to += blocks * GB_V * all)
        for (ptrdiff_t i = 0; i < own; ++i)
          for (int k = 0; k < rows * columns; ++k)
            for (ptrdiff_t o = 0; o < made; ++o) {
              const ptrdiff_t row = down + k / columns * s->stride[0],
                              column = across + k % columns * s->stride[1];
              GB(packed)(to, o / GB_V, blocks, all,
                         (i / GB_V * rows * columns + k) * GB_V + i % GB_V)[o % GB_V] =
                  w[((g * own + i) * made + o) * taps + row * s->kernel[1] + column];
            }
    }
}

#else
static gb_size gb_transposed_size(const gb_program *p, const gb_step *s, gb_size in) {
  (void)p;
  return (gb_size){in.batch, gb_enlarged(s, 0, in.height), gb_enlarged(s, 1, in.width)};
}

static void gb_divide_transposed(const gb_width *width, gb_call *c) {
  gb_divide_into(width, c, gb_pairs(c), 0);
}
#endif
