/* Numbers of bfloat16: the upper halves of floats, rounded to the nearest number, ties to even. NaN
 * stays NaN, infinities stay infinite, and subnormal numbers become 0. Only processors with vectors
 * of 16 floats have instructions for bfloat16. These are in assembly, because few versions of
 * compilers have names for them. */
#if GB_V == 16 && !defined(GB_NARROW_NUMBERS)
#define GB_NARROW_NUMBERS
typedef uint16_t gb_half_pixel __attribute__((vector_size(32), aligned(4)));
typedef uint16_t gb_narrow_pixel __attribute__((vector_size(64), aligned(4)));
enum { GB_PAIR = 2 * GB_V }; /* channels in a block of narrow numbers */

/* 16 channels as floats. */
GK_INLINE GB(vec) gb_widened(const void *p) {
  return (GB(vec))(__builtin_convertvector(*(const gb_half_pixel *)p, GB(bits)) << 16);
}

GK_INLINE gb_half_pixel gb_narrowed(GB(vec) x) {
  gb_half_pixel y;
  __asm__("vcvtneps2bf16 %1, %0" : "=v"(y) : "v"(x));
  return y;
}

GK_INLINE gb_narrow_pixel gb_narrowed_pair(GB(vec) low, GB(vec) high) {
  gb_narrow_pixel y;
  __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(y) : "v"(low), "v"(high));
  return y;
}

/* A mask with all bits set in the first `channels` of the 32 channels of a block. In images of
 * narrow numbers, the lanes of the other channels must be zero, because products read them. */
GK_INLINE gb_narrow_pixel gb_narrow_lanes(ptrdiff_t channels) {
  const gb_narrow_pixel places = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                  16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
  return (gb_narrow_pixel)(places < (uint16_t)(channels < GB_PAIR ? channels : GB_PAIR));
}

/* A weight rounded to bfloat16, on any processor. */
GK_INLINE uint16_t gb_narrow_weight(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (x != x) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
#endif
