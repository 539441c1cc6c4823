/* The functions for tiles whose pixels are next to each other in memory, and the functions that
 * call those for tiles. */
#define GB_TILE_OF(r)                                   \
  GB_FUNCTION(one_##r, GB(sum)(t, GB_V, r, 1, GB_V), r) \
  GB_FUNCTION(two_##r, GB(sum)(t, GB_V, r, 2, GB_V), r)
GB_TILES(GB_TILE_OF)
#undef GB_TILE_OF

#define GB_ONE(r) [r] = GB(one_##r),
#define GB_TWO(r) [r] = GB(two_##r),
GB(tile_function) *const GB(near_tiles)[][GB_TILE + 1] = {{GB_TILES(GB_ONE)}, {GB_TILES(GB_TWO)}};
#undef GB_ONE
#undef GB_TWO

void GB(finish_pixels)(const GB(tile) *t, ptrdiff_t n, float *y, const float *residual) {
  if (t->y_pixel == GB_V) GB(activate)(y, n * GB_V, t->step);
  else
    for (ptrdiff_t k = 0; k < n; ++k) GB(activate)(y + k * t->y_pixel, GB_V, t->step);
  if (residual && t->step->after)
    for (ptrdiff_t k = 0; k < n; ++k)
      *(GB(loose) *)(y + k * t->y_pixel) += *(const GB(loose) *)(residual + k * t->residual_pixel);
}

void GB(pixels)(GB(tile) *t, ptrdiff_t n, GB(tile_function) *const *tiles, int blocks) {
  float *y = t->y;
  const float *residual = t->residual;
  /* one loop over blocks replaces three loops */
  if (GB_STEP == GB_V && t->blocks > 1 && t->rows * t->columns == 1) {
    t->columns = t->blocks;
    t->x_column = t->x_block;
    t->blocks = 1;
  }
  /* Otherwise, each step would prefetch from an unmapped address, which is slow. */
  if (!t->ahead) t->ahead = t->w;
  t->asked = t->ahead_step * t->blocks * t->rows * t->columns * (GB_V / GB_STEP);
  GB(tiles_side_by_side)(t, n, tiles, GB_TILE);
  if (GB(is_finished)(t->step)) return;
  for (int b = 0; b < blocks; ++b)
    GB(finish_pixels)(t, n, y + b * t->y_block, residual ? residual + b * t->residual_block : NULL);
}
