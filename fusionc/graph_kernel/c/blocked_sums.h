/* The functions of tiles, for one width of vectors. Where registers are few, gcc has to be told what to do with them. */

/* Pixels that one pointer reaches with one distance; a second one reaches the others. */
#define GB_HALF (GB_STEP == GB_V ? GB_TILE / 2 : GB_TILE)
/* What gcc knows of a number is forgotten: it would keep for later turns what it finds to be the same. */
#define GB_FORGET(number) __asm__("" : "+r"(number))

/* R pixels by O blocks of channels out; C channels of a block in. `pixel` is how far pixels lie apart. */
GK_INLINE void GB(sum)(const GB(tile) *t, const ptrdiff_t pixel, const int R, const int O, const int C) {
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
  const float *w = t->w, *block = t->x, *ahead = t->ahead;
#if GB_IS_ASSEMBLED
  const GB(distances) far = {4 * pixel, 4 * t->x_column, 4 * t->ahead_step, t->columns};
#endif
  for (ptrdiff_t b = 0; b < t->blocks; ++b, block += t->x_block) {
    const float *row = block;
    const ptrdiff_t channels = C > step && b + 1 == t->blocks ? t->last : C;
    for (ptrdiff_t i = 0; i < t->rows; ++i, row += t->x_row) {
#if GB_IS_ASSEMBLED
      if (C == GB_V && t->columns > 0) { // a phase of a transposed convolution may have no columns
        GB(add_columns)(s0, s1, row, w, ahead, &far, R, O);
        w += t->columns * C * O * GB_V;
        ahead += t->columns * t->ahead_step;
        continue;
      }
#endif
      const float *tap = row;
      for (ptrdiff_t j = 0; j < t->columns; ++j, tap += t->x_column, w += C * O * GB_V) {
        const float *x = tap, *these = w;
        for (ptrdiff_t left = channels; left > 0; left -= step, x += step, these += step * O * GB_V) {
          if (C > 1) {
            for (int line = 0; line < GB_ASKED; ++line) __builtin_prefetch(ahead + line * GB_LINE, 0, 2);
            ahead += t->ahead_step;
          }
          const float *lower = x + GB_HALF * pixel;
          GB_FORGET(x);
          if (is_far) GB_FORGET(lower);
#pragma GCC unroll 8
          for (int c = 0; c < step; ++c) {
            const GB(vec) w0 = GB(load)(these + c * O * GB_V), w1 = O > 1 ? GB(load)(these + (c * O + 1) * GB_V) : w0;
            ptrdiff_t apart = pixel;
            if (is_far) GB_FORGET(apart);
            GB_FOR_PIXELS(r) {
              const GB(vec) v = GB(all)(r < GB_HALF ? x[r * apart + c] : lower[(r - GB_HALF) * apart + c]);
              s0[r] = GB_MADD(v, w0, s0[r]);
              if (O > 1) s1[r] = GB_MADD(v, w1, s1[r]);
            }
          }
        }
      }
    }
  }
  GB(finish)(t, s0, t->y, t->residual, O > 1 ? NULL : t->lanes, R);
  if (O > 1) GB(finish)(t, s1, t->y + t->y_block, t->residual ? t->residual + t->residual_block : NULL, t->lanes, R);
}

/* R pixels of one block, each channel by itself, by kernels of K columns; `pixel` and `column` are how far those lie
 * apart. */
GK_INLINE void GB(each_sum)(const GB(tile) *t, const ptrdiff_t pixel, const ptrdiff_t column, const int R, const ptrdiff_t K) {
  GB(vec) sums[GB_LONGEST];
  GB_FOR_PIXELS(r) sums[r] = t->start ? GB(load)(t->start) : (GB(vec)){0};
  const float *w = t->w, *row = t->x;
  for (ptrdiff_t i = 0; i < t->rows; ++i, row += t->x_row) {
    const float *x = row;
#pragma GCC unroll 8
    for (ptrdiff_t j = 0; j < K; ++j, x += column, w += GB_V) {
      GB_FOR_PIXELS(r) sums[r] = GB_MADD(GB(load)(x + r * pixel), GB(load)(w), sums[r]);
    }
  }
  GB(finish)(t, sums, t->y, t->residual, t->lanes, R);
}

/* R pixels of one block, each lane a sum over the channels of its group: in turn, all lanes take the next one of theirs. */
GK_INLINE void GB(grouped_sum)(const GB(tile) *t, const int R) {
  GB(vec) sums[GB_LONGEST];
  GB_FOR_PIXELS(r) sums[r] = t->start ? GB(load)(t->start) : (GB(vec)){0};
  const float *w = t->w, *row = t->x;
  for (ptrdiff_t i = 0; i < t->rows; ++i, row += t->x_row) {
    const float *x = row;
    for (ptrdiff_t j = 0; j < t->columns; ++j, x += t->x_column) {
      GB(bits) from = *(const GB(bits) *)t->sources;
      for (ptrdiff_t c = 0; c < t->last; ++c, w += GB_V, from += 1) {
        const GB(vec) factor = GB(load)(w);
        GB_FOR_PIXELS(r) sums[r] = GB_MADD(GB_PERMUTE(GB(load)(x + r * t->x_pixel), from), factor, sums[r]);
      }
    }
  }
  GB(finish)(t, sums, t->y, t->residual, t->lanes, R);
}

/* A function of tiles of r pixels. */
#define GB_FUNCTION(name, sums, r)                                                        \
  static void GB(name)(GB(tile) * t, ptrdiff_t count) {                                   \
    for (; count > 0; --count) {                                                          \
      sums;                                                                               \
      t->ahead += t->asked;                                                               \
      t->x += r * t->x_pixel;                                                             \
      t->y += r * t->y_pixel;                                                             \
      if (t->residual) t->residual += r * t->residual_pixel;                              \
    }                                                                                     \
  }
#define GB_TILE_OF(r)                                                                     \
  GB_FUNCTION(one_##r, GB(sum)(t, GB_V, r, 1, GB_V), r)                                   \
  GB_FUNCTION(two_##r, GB(sum)(t, GB_V, r, 2, GB_V), r)                                   \
  GB_FUNCTION(far_one_##r, GB(sum)(t, t->x_pixel, r, 1, GB_V), r)                         \
  GB_FUNCTION(far_two_##r, GB(sum)(t, t->x_pixel, r, 2, GB_V), r)
#define GB_SOME_TILE_OF(r)                                                                \
  GB_FUNCTION(first_one_##r, GB(sum)(t, t->x_pixel, r, 1, 1), r)                          \
  GB_FUNCTION(first_two_##r, GB(sum)(t, t->x_pixel, r, 2, 1), r)
#define GB_LANE_TILE_OF(r)                                                                \
  GB_FUNCTION(each_##r, GB(each_sum)(t, t->x_pixel, t->x_column, r, t->columns), r)       \
  GB_FUNCTION(each_3_##r, GB(each_sum)(t, GB_V, GB_V, r, 3), r)                           \
  GB_FUNCTION(each_5_##r, GB(each_sum)(t, GB_V, GB_V, r, 5), r)                           \
  GB_FUNCTION(each_3_2_##r, GB(each_sum)(t, 2 * GB_V, GB_V, r, 3), r)                     \
  GB_FUNCTION(each_5_2_##r, GB(each_sum)(t, 2 * GB_V, GB_V, r, 5), r)                     \
  GB_FUNCTION(each_7_##r, GB(each_sum)(t, GB_V, GB_V, r, 7), r)                           \
  GB_FUNCTION(grouped_##r, GB(grouped_sum)(t, r), r)
GB_TILES(GB_TILE_OF)
GB_SOME_TILES(GB_SOME_TILE_OF)
GB_LANE_TILES(GB_LANE_TILE_OF)
#undef GB_FUNCTION
#undef GB_TILE_OF
#undef GB_SOME_TILE_OF
#undef GB_LANE_TILE_OF

#define GB_ONE(r) [r] = GB(one_##r),
#define GB_TWO(r) [r] = GB(two_##r),
#define GB_FAR_ONE(r) [r] = GB(far_one_##r),
#define GB_FAR_TWO(r) [r] = GB(far_two_##r),
#define GB_FIRST_ONE(r) [r] = GB(first_one_##r),
#define GB_FIRST_TWO(r) [r] = GB(first_two_##r),
#define GB_EACH_TILE(r) [r] = GB(each_##r),
#define GB_EACH_3(r) [r] = GB(each_3_##r),
#define GB_EACH_5(r) [r] = GB(each_5_##r),
#define GB_EACH_3_2(r) [r] = GB(each_3_2_##r),
#define GB_EACH_5_2(r) [r] = GB(each_5_2_##r),
#define GB_EACH_7(r) [r] = GB(each_7_##r),
#define GB_GROUPED_TILE(r) [r] = GB(grouped_##r),
GB(tile_function) *const GB(tiles)[][GB_LONGEST + 1] = {
    {GB_TILES(GB_ONE)},
    {GB_TILES(GB_TWO)},
    {GB_TILES(GB_FAR_ONE)},
    {GB_TILES(GB_FAR_TWO)},
    {GB_SOME_TILES(GB_FIRST_ONE)},
    {GB_SOME_TILES(GB_FIRST_TWO)},
    {GB_LANE_TILES(GB_EACH_TILE)},
    {GB_LANE_TILES(GB_EACH_3)},
    {GB_LANE_TILES(GB_EACH_5)},
    {GB_LANE_TILES(GB_EACH_7)},
    {GB_LANE_TILES(GB_EACH_3_2)},
    {GB_LANE_TILES(GB_EACH_5_2)},
    {GB_LANE_TILES(GB_GROUPED_TILE)},
};
#undef GB_ONE
#undef GB_TWO
#undef GB_FAR_ONE
#undef GB_FAR_TWO
#undef GB_FIRST_ONE
#undef GB_FIRST_TWO
#undef GB_EACH_TILE
#undef GB_EACH_3
#undef GB_EACH_5
#undef GB_EACH_3_2
#undef GB_EACH_5_2
#undef GB_EACH_7
#undef GB_GROUPED_TILE
#undef GB_HALF
#undef GB_FORGET
