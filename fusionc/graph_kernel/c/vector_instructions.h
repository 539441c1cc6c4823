/* The vector instructions of x86-64 that steps use, for each number of floats in a vector. For the
 * known versions of gcc, their built-in names are used: reading immintrin.h, which has thousands of
 * functions, takes as long as compiling half a text. */
#if defined(__x86_64__) && !defined(GB_VECTOR_INSTRUCTIONS)
#define GB_VECTOR_INSTRUCTIONS
#if !defined(__clang__) && __GNUC__ >= 9 && __GNUC__ <= 14
typedef float gb_m4 __attribute__((vector_size(16)));
typedef float gb_m8 __attribute__((vector_size(32)));
typedef float gb_m16 __attribute__((vector_size(64)));
typedef int gb_i8 __attribute__((vector_size(32)));
typedef int gb_i16 __attribute__((vector_size(64)));
enum { GB_ALL_LANES = 65535, GB_AS_ROUNDED = 4 };
#define gb_max_4(a, b) __builtin_ia32_maxps((gb_m4)(a), (gb_m4)(b))
#define gb_min_4(a, b) __builtin_ia32_minps((gb_m4)(a), (gb_m4)(b))
#define gb_madd_8(a, b, c) __builtin_ia32_vfmaddps256((gb_m8)(a), (gb_m8)(b), (gb_m8)(c))
#define gb_max_8(a, b) __builtin_ia32_maxps256((gb_m8)(a), (gb_m8)(b))
#define gb_min_8(a, b) __builtin_ia32_minps256((gb_m8)(a), (gb_m8)(b))
#define gb_permute_8(x, k) __builtin_ia32_permvarsf256((gb_m8)(x), (gb_i8)(k))
#define gb_madd_16(a, b, c)                                                            \
  __builtin_ia32_vfmaddps512_mask((gb_m16)(a), (gb_m16)(b), (gb_m16)(c), GB_ALL_LANES, \
                                  GB_AS_ROUNDED)
#define gb_max_16(a, b) \
  __builtin_ia32_maxps512_mask((gb_m16)(a), (gb_m16)(b), (gb_m16){0}, GB_ALL_LANES, GB_AS_ROUNDED)
#define gb_min_16(a, b) \
  __builtin_ia32_minps512_mask((gb_m16)(a), (gb_m16)(b), (gb_m16){0}, GB_ALL_LANES, GB_AS_ROUNDED)
#define gb_permute_16(x, k) \
  __builtin_ia32_permvarsf512_mask((gb_m16)(x), (gb_i16)(k), (gb_m16){0}, GB_ALL_LANES)
#else
#include <immintrin.h>
#define gb_max_4(a, b) _mm_max_ps((__m128)(a), (__m128)(b))
#define gb_min_4(a, b) _mm_min_ps((__m128)(a), (__m128)(b))
#define gb_madd_8(a, b, c) _mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#define gb_max_8(a, b) _mm256_max_ps((__m256)(a), (__m256)(b))
#define gb_min_8(a, b) _mm256_min_ps((__m256)(a), (__m256)(b))
#define gb_permute_8(x, k) _mm256_permutevar8x32_ps((__m256)(x), (__m256i)(k))
#define gb_madd_16(a, b, c) _mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#define gb_max_16(a, b) _mm512_max_ps((__m512)(a), (__m512)(b))
#define gb_min_16(a, b) _mm512_min_ps((__m512)(a), (__m512)(b))
#define gb_permute_16(x, k) _mm512_permutexvar_ps((__m512i)(k), (__m512)(x))
#endif
#endif
