/* Images and weights to the points of Winograd's tiles, and sums at these back to pixels: see blocked_winograd.h.
 *
 * In each direction the first two points take one outer element of a kernel each, and those at a number and at its negative,
 * which share most of their sums, are neighbours: two rows of weights need little of what the others do. */
#define GB_ROWS_OF(P) ((P) == 6 ? 2 : 4) /* of the points of weights that are made at once */

GK_INLINE void GB(to_points)(const int P, const GB(vec) * d, ptrdiff_t step, GB(vec) * to, ptrdiff_t to_step) {
  const GB(vec) d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step];
  if (P == 5) {
    to[0] = d0 - d2;
    to[to_step] = d[4 * step] - d2;
    to[2 * to_step] = d2;
    to[3 * to_step] = d1;
    to[4 * to_step] = d3;
    return;
  }
  if (P == 4) {
    to[0] = d0 - d2;
    to[to_step] = d1 - d3;
    to[2 * to_step] = d1 + d2;
    to[3 * to_step] = d2 - d1;
    return;
  }
  const GB(vec) d4 = d[4 * step], d5 = d[5 * step];
  const GB(vec) a = GB_MADD(d2, GB(all)(-4.0f), d4), b = GB_MADD(d1, GB(all)(-4.0f), d3), e = d4 - d2, f = 2.0f * (d3 - d1);
  to[0] = GB_MADD(d2, GB(all)(-5.0f), GB_MADD(d0, GB(all)(4.0f), d4));
  to[to_step] = GB_MADD(d3, GB(all)(-5.0f), GB_MADD(d1, GB(all)(4.0f), d5));
  to[2 * to_step] = a + b;
  to[3 * to_step] = a - b;
  to[4 * to_step] = e + f;
  to[5 * to_step] = e - f;
}

GK_INLINE void GB(from_points)(const int P, const GB(vec) * m, ptrdiff_t step, GB(vec) * to, ptrdiff_t to_step) {
  if (P == 5) {
    to[0] = m[0] + m[2 * step] + m[3 * step];
    to[to_step] = m[2 * step] + m[step] + m[4 * step];
    return;
  }
  const GB(vec) a = m[2 * step] + m[3 * step], b = m[2 * step] - m[3 * step];
  if (P == 4) {
    to[0] = m[0] + a;
    to[to_step] = b - m[step];
    return;
  }
  const GB(vec) e = m[4 * step] + m[5 * step], f = m[4 * step] - m[5 * step];
  to[0] = m[0] + a + e;
  to[to_step] = GB_MADD(f, GB(all)(2.0f), b);
  to[2 * to_step] = GB_MADD(e, GB(all)(4.0f), a);
  to[3 * to_step] = GB_MADD(f, GB(all)(8.0f), b) + m[step];
}

/* Three elements of a kernel, in one direction, at the points of a tile. */
GK_INLINE void GB(kernel_to_points)(const int P, GB(vec) a, GB(vec) b, GB(vec) c, GB(vec) * to) {
  to[1] = c;
  if (P == 5) {
    to[0] = a;
    to[2] = a + c;
    to[3] = b;
    return;
  }
  const GB(vec) part = GB(all)(P == 4 ? 0.5f : -1.0f / 6.0f), even = (a + c) * part, odd = b * part;
  to[0] = P == 4 ? a : a * 0.25f;
  to[2] = even + odd;
  to[3] = even - odd;
  if (P == 6) {
    const GB(vec) sum = GB_MADD(a, GB(all)(1.0f / 24.0f), c * (1.0f / 6.0f)), other = b * (1.0f / 12.0f);
    to[4] = sum + other;
    to[5] = sum - other;
  }
}

/* Which of the points of weights a point of a tile needs, or behind the last one those behind the last. */
GK_INLINE ptrdiff_t GB(kernel_point)(const int P, ptrdiff_t point) {
  static const int8_t of_five[] = {0, 1, 2, 3, 3, 4};
  return P == 5 ? 4 * of_five[point / 5] + of_five[point % 5] : point;
}

/* Weights of some blocks in and one or two blocks out at the points of a tile, `step` apart: `count` rows of these. */
GK_INLINE void GB(weights_to_rows)(const int P, const int first, const int count, const float *w, float *to, ptrdiff_t step,
                                   ptrdiff_t blocks, int is_two) {
  const int own = GB_KERNEL_OF(P);
  const ptrdiff_t row = (1 + is_two) * GB_V;
  for (ptrdiff_t i = 0; i < blocks * GB_V; ++i, w += 9 * row)
    for (ptrdiff_t o = 0; o < row; o += GB_V, to += GB_V) {
      GB(vec) points[6], columns[3][6];
      for (int n = 0; n < 3; ++n) {
        const float *kernel = w + n * row + o;
        GB(kernel_to_points)(P, GB(load)(kernel), GB(load)(kernel + 3 * row), GB(load)(kernel + 6 * row), columns[n]);
      }
      for (int r = 0; r < count; ++r) {
        GB(kernel_to_points)(P, columns[0][first + r], columns[1][first + r], columns[2][first + r], points);
        for (int n = 0; n < own; ++n) *(GB(vec) *)(to + (r * own + n) * step) = points[n];
      }
    }
}

/* GB_ROWS_OF(P) rows of them, from one of these on. */
GK_INLINE void GB(weights_to_points)(const int P, ptrdiff_t first, const float *w, float *to, ptrdiff_t step, ptrdiff_t blocks,
                                     int is_two) {
  if (P < 6) GB(weights_to_rows)(P, 0, 4, w, to, step, blocks, is_two);
  else if (first == 0) GB(weights_to_rows)(6, 0, 2, w, to, step, blocks, is_two);
  else if (first == 2) GB(weights_to_rows)(6, 2, 2, w, to, step, blocks, is_two);
  else GB(weights_to_rows)(6, 4, 2, w, to, step, blocks, is_two);
}

/* All packed weights at the points of a tile, as they are kept where many tasks need them. */
void GB(transform_weights)(const float *w, float *to, ptrdiff_t in_blocks, ptrdiff_t out_blocks, int P) {
  const ptrdiff_t all = in_blocks * GB_V * GB_V, kernel_points = GB_KERNEL_POINTS(P);
  for (ptrdiff_t pair = 0; pair < out_blocks; pair += 2) {
    const int is_two = pair + 1 < out_blocks;
    const float *from = w + 9 * pair * all;
    float *at = to + kernel_points * pair * all;
    const ptrdiff_t step = (1 + is_two) * all;
    if (P == 4) GB(weights_to_points)(4, 0, from, at, step, in_blocks, is_two);
    else if (P == 5) GB(weights_to_points)(5, 0, from, at, step, in_blocks, is_two);
    else
      for (ptrdiff_t first = 0; first < 6; first += GB_ROWS_OF(6))
        GB(weights_to_points)(6, first, from, at + 6 * first * step, step, in_blocks, is_two);
  }
}

/* One tile of one block to its points, `step` apart. Pixels beyond the zeros around the image are zero, too. */
GK_INLINE void GB(tile_to_points)(const int P, const gb_call *c, const float *image, ptrdiff_t y, ptrdiff_t x, float *to,
                                  ptrdiff_t step) {
  const ptrdiff_t top = y * GB_STRIDE_OF(P) - c->step->pads[0], left = x * GB_STRIDE_OF(P) - c->step->pads[1];
  GB(vec) kept[36], rows[36], points[6];
  const float *from = image + top * c->in.row + left * GB_V;
  ptrdiff_t row = c->in.row;
  if (top < 0 || left < 0 || top + P > c->in.height || left + P > c->in.width) {
    for (int i = 0; i < P; ++i)
      for (int j = 0; j < P; ++j) {
        const int is_inside = top + i >= 0 && left + j >= 0 && top + i < c->in.height && left + j < c->in.width;
        kept[i * P + j] = is_inside ? GB(load)(from + i * row + j * GB_V) : (GB(vec)){0};
      }
    from = (const float *)kept;
    row = P * GB_V;
  }
  for (int i = 0; i < P; ++i) GB(to_points)(P, (const GB(vec) *)(from + i * row), 1, rows + P * i, 1);
  for (int j = 0; j < P; ++j) {
    GB(to_points)(P, rows + j, P, points, 1);
    for (int i = 0; i < P; ++i) {
      *(GB(vec) *)(to + (i * P + j) * step) = points[i];
      __builtin_prefetch(to + (i * P + j) * step + 2 * GB_V, 1); /* of the next tiles: a core waits for few writes at once */
    }
  }
}
