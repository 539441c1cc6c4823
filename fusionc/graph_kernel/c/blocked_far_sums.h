/* The functions for tiles whose pixels are not next to each other in memory, and for planar images
 * (whose channels are stored one after the other). */
#define GB_TILE_OF(r)                                             \
  GB_FUNCTION(far_one_##r, GB(sum)(t, t->x_pixel, r, 1, GB_V), r) \
  GB_FUNCTION(far_two_##r, GB(sum)(t, t->x_pixel, r, 2, GB_V), r)
#define GB_SOME_TILE_OF(r)                                       \
  GB_FUNCTION(first_one_##r, GB(sum)(t, t->x_pixel, r, 1, 1), r) \
  GB_FUNCTION(first_two_##r, GB(sum)(t, t->x_pixel, r, 2, 1), r)
GB_TILES(GB_TILE_OF)
GB_SOME_TILES(GB_SOME_TILE_OF)
#undef GB_TILE_OF
#undef GB_SOME_TILE_OF

#define GB_FAR_ONE(r) [r] = GB(far_one_##r),
#define GB_FAR_TWO(r) [r] = GB(far_two_##r),
#define GB_FIRST_ONE(r) [r] = GB(first_one_##r),
#define GB_FIRST_TWO(r) [r] = GB(first_two_##r),
GB(tile_function) *const GB(far_tiles)[][GB_TILE + 1] = {{GB_TILES(GB_FAR_ONE)},
                                                         {GB_TILES(GB_FAR_TWO)}};
GB(tile_function) *const GB(first_tiles)[][GB_TILE + 1] = {{GB_SOME_TILES(GB_FIRST_ONE)},
                                                           {GB_SOME_TILES(GB_FIRST_TWO)}};
#undef GB_FAR_ONE
#undef GB_FAR_TWO
#undef GB_FIRST_ONE
#undef GB_FIRST_TWO
