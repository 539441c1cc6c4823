/* The sums of a tile, as inline code that several C texts use. If there are few registers, gcc
 * needs hints to use them well. */

/* The number of pixels that are addressed from one pointer. A second pointer addresses the
 * others. */
#define GB_HALF (GB_STEP == GB_V ? GB_TILE / 2 : GB_TILE)
/* Makes gcc forget what it knows about a number. Otherwise it would keep values in registers
 * because later iterations need equal ones. */
#define GB_FORGET(number) __asm__("" : "+r"(number))

/* The sums of R pixels by O blocks of output channels, over C channels of each input block. `pixel`
 * is the distance between pixels. */
GK_INLINE void GB(sum)(const GB(tile) *t, const ptrdiff_t pixel, const int R, const int O,
                       const int C) {
  const int step = C < GB_STEP ? C : GB_STEP, is_far = GB_HALF < R && !__builtin_constant_p(pixel);
  GB(vec) s0[GB_TILE], s1[GB_TILE];
  GB(vec) b0 = {0}, b1 = {0};
  if (t->start) {
    b0 = GB(load)(t->start);
    if (O > 1) b1 = GB(load)(t->start + GB_V);
  }
  GB_FOR_PIXELS(r) {
    s0[r] = t->is_begun ? GB(load_loose)(t->y + r * t->y_pixel) : b0;
    s1[r] = O > 1 && t->is_begun ? GB(load_loose)(t->y + t->y_block + r * t->y_pixel) : b1;
  }
  if (C == 1) /* with so few products, the slow part is to write results to memory: prefetch it */
    GB_FOR_PIXELS(r) {
      __builtin_prefetch(t->y + r * t->y_pixel, 1);
      if (O > 1) __builtin_prefetch(t->y + t->y_block + r * t->y_pixel, 1);
    }
  const float *w = t->w, *block = t->x, *ahead = t->ahead;
#if GB_IS_ASSEMBLED
  const GB(distances) far = {4 * pixel, 4 * t->x_column, 4 * t->ahead_step, t->columns};
#endif
  for (ptrdiff_t b = 0; b < t->blocks; ++b, block += t->x_block) {
    const float *row = block;
    const ptrdiff_t channels = C > step && b + 1 == t->blocks ? t->last : C;
    for (ptrdiff_t i = 0; i < t->rows; ++i, row += t->x_row) {
#if GB_IS_ASSEMBLED
      if (C == GB_V && t->columns > 0) {  // a phase of a transposed convolution may have no columns
        GB(add_columns)(s0, s1, row, w, ahead, &far, R, O);
        w += t->columns * C * O * GB_V;
        ahead += t->columns * t->ahead_step;
        continue;
      }
#endif
      const float *tap = row;
      for (ptrdiff_t j = 0; j < t->columns; ++j, tap += t->x_column, w += C * O * GB_V) {
        const float *x = tap, *these = w;
        for (ptrdiff_t left = channels; left > 0;
             left -= step, x += step, these += step * O * GB_V) {
          if (C > 1) {
            for (int line = 0; line < GB_ASKED; ++line)
              __builtin_prefetch(ahead + line * GB_LINE, 0, 2);
            ahead += t->ahead_step;
          }
          const float *lower = x + GB_HALF * pixel;
          GB_FORGET(x);
          if (is_far) GB_FORGET(lower);
#pragma GCC unroll 8
          for (int c = 0; c < step; ++c) {
            const GB(vec) w0 = GB(load)(these + c * O * GB_V),
                          w1 = O > 1 ? GB(load)(these + (c * O + 1) * GB_V) : w0;
            ptrdiff_t apart = pixel;
            if (is_far) GB_FORGET(apart);
            GB_FOR_PIXELS(r) {
              const GB(vec) v =
                  GB(all)(r < GB_HALF ? x[r * apart + c] : lower[(r - GB_HALF) * apart + c]);
              s0[r] = GB_MADD(v, w0, s0[r]);
              if (O > 1) s1[r] = GB_MADD(v, w1, s1[r]);
            }
          }
        }
      }
    }
  }
  GB(finish)(t, s0, t->y, t->residual, O > 1 ? NULL : t->lanes, R);
  if (O > 1)
    GB(finish)(t, s1, t->y + t->y_block, t->residual ? t->residual + t->residual_block : NULL,
               t->lanes, R);
}
#undef GB_HALF
#undef GB_FORGET
