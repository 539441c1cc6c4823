/* The processor's instructions for narrow numbers (bfloat16 and bytes). */
/* Whether the environment variable FUSIONC_KERNELS_WITHOUT names these instructions. With it, tests
 * and measurements disable instructions. */
static int gb_is_masked(const char *name) {
  const char *masked = getenv("FUSIONC_KERNELS_WITHOUT");
  return masked && strstr(masked, name);
}

#if defined(__x86_64__) && defined(__linux__)
extern long syscall(long, ...); /* declared here, because unistd.h does not do so with plain C11 */

/* Asks the system for the processor's matrix tiles (AMX). Returns whether this process may use
 * them. */
static int gb_may_use_tiles(void) {
  enum { ARCH_PRCTL = 158, REQUEST = 0x1023, TILE_DATA = 18 };
  unsigned low, high;
  if (syscall(ARCH_PRCTL, REQUEST, TILE_DATA)) return 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & 0x60000) == 0x60000;
}
#else
static int gb_may_use_tiles(void) { return 0; }
#endif

static int gb_known_instructions(void) {
#if defined(__x86_64__)
  unsigned a, b, c, d, more = 0, has = 0;
  const int body = gk_best_body();
  if (body < 1 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
  const int has_vnni = c >> 11 & 1, has_tiles = d >> 24 & 1, of_bfloat16 = d >> 22 & 1,
            of_bytes = d >> 25 & 1;
  if (a > 0 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) more = a;
  if ((more >> 4 & 1) && !gb_is_masked("avx_vnni")) has |= GB_HAS_VNNI;
  if (body < 2) return (int)has;
  if (has_vnni && !gb_is_masked("avx512_vnni")) has |= GB_HAS_VNNI_512;
  if ((more >> 5 & 1) && !gb_is_masked("bf16")) has |= GB_HAS_BFLOAT16;
  if (!has_tiles || gb_is_masked("amx") || !gb_may_use_tiles()) return (int)has;
  if ((has & GB_HAS_BFLOAT16) && of_bfloat16 && of_bytes) has |= GB_HAS_TILES;
  if (of_bytes) has |= GB_HAS_BYTE_TILES;
  return (int)has;
#else
  return 0;
#endif
}

/* The processor's instructions, as bits. They are determined only once. */
int gb_instructions(void) {
  static _Atomic int known = -1;
  if (known < 0) known = gb_known_instructions();
  return known;
}

/* Whether vector products of bfloat16 take less time than those of float32. On AMD's processors
 * they take half the time, but on Intel's they take twice the time (Sapphire Rapids: 61 products of
 * bfloat16, and 123 of float32, in a nanosecond). */
static int gb_pays_narrow_vectors(void) {
#if defined(__x86_64__)
  enum { AUTH = 0x68747541 }; /* "Auth", of AuthenticAMD */
  unsigned a, b, c, d;
  return __get_cpuid(0, &a, &b, &c, &d) && b == AUTH;
#else
  return 0;
#endif
}

/* The kernel, or its variant for narrow numbers if this processor computes that variant faster. */
static const gk_kernel *gb_chosen(const gk_kernel *kernel) {
  const int has = gb_instructions();
  const int pays = (has & GB_HAS_TILES) || gb_pays_narrow_vectors();
  return kernel->narrow && (has & GB_HAS_BFLOAT16) && pays ? kernel->narrow : kernel;
}
