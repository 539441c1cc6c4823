/* Instructions for products of narrow numbers (bfloat16 and bytes), and the matrix tiles of AMX. */
#ifndef GB_MATRIX_TILES
#define GB_MATRIX_TILES
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__x86_64__) && ((defined(__clang__) && __clang_major__ >= 14) || __GNUC__ >= 12)
#define GB_HAS_INTRINSICS 1
#else
#define GB_HAS_INTRINSICS 0
#endif

#if GB_HAS_INTRINSICS
/* The integers nearest to 16 floats. Numbers above 65536 become 65536, which saturates when it is
 * packed to a byte. Without this limit, the instruction would return the smallest integer for
 * numbers that need more than 32 bits. */
#define GB_TO_INTEGERS(x) _mm512_cvtps_epi32(_mm512_min_ps(x, _mm512_set1_ps(65536.0f)))

/* The configuration that the tiles had before. It is restored afterwards, because other code of the
 * thread may use the tiles, too. */
typedef struct {
  unsigned char config[64];
} gb_tile_state;

/* Configures eight tiles of 16 rows of 64 bytes. */
__attribute__((target("amx-tile"), unused)) static void gb_begin_tiles(gb_tile_state *before) {
  static const unsigned char ours[64] = {
      1, [16] = 64, [18] = 64, [20] = 64, [22] = 64, [24] = 64, [26] = 64, [28] = 64, [30] = 64,
      [48] = 16, 16, 16, 16, 16, 16, 16, 16};
  _tile_storeconfig(before->config);
  _tile_loadconfig(ours);
}

__attribute__((target("amx-tile"), unused)) static void gb_end_tiles(const gb_tile_state *before) {
  if (before->config[0]) _tile_loadconfig(before->config);
  else _tile_release();
}
#endif
#endif
