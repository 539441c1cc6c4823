/* What the processor has for products of narrow numbers. */
#ifndef GB_MATRIX_TILES
#define GB_MATRIX_TILES
enum { GB_HAS_VNNI = 1, GB_HAS_VNNI_512 = 2, GB_HAS_AMX_INT8 = 4 };
#endif
enum { GB_FEATURES_USED = -1 };

#if defined(__x86_64__) && defined(__linux__)
extern long syscall(long, ...);
/* Linux gives the registers of tiles only to processes that ask. */
static int gb_may_use_tiles(void) {
  enum { GB_ARCH_PRCTL = 158, GB_REQUEST = 0x1023, GB_TILE_DATA = 18 };
  return syscall(GB_ARCH_PRCTL, GB_REQUEST, GB_TILE_DATA) == 0;
}
#else
static int gb_may_use_tiles(void) { return 0; }
#endif

static int gb_ask_features(void) {
  int features = 0;
#if defined(__x86_64__)
  unsigned a, b, c, d, more, enabled, high;
  const int body = gk_best_body();
  if (body < 1 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
  const unsigned has_more = a, has_vnni_512 = c >> 11 & 1, has_tiles = d >> 24 & d >> 25 & 1;
  more = 0;
  if (has_more && !__get_cpuid_count(7, 1, &more, &b, &c, &d)) more = 0;
  __asm__ volatile("xgetbv" : "=a"(enabled), "=d"(high) : "c"(0));
  if (more >> 4 & 1) features |= GB_HAS_VNNI;
  if (body == 2 && has_vnni_512) features |= GB_HAS_VNNI_512;
  if (body == 2 && has_tiles && (enabled >> 17 & 3) == 3 && gb_may_use_tiles())
    features |= GB_HAS_AMX_INT8;
#endif
  return features & GB_FEATURES_USED;
}

int gb_features(void) {
  static _Atomic int features = -1;
  if (features < 0) features = gb_ask_features();
  return features;
}
