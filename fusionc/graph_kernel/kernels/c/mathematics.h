/* What the expressions of kernels call. No branches on values, so that loops over these functions become vectors.
 *
 * exp, log, tanh, erf and sigmoid of floats are the project's own: at most 4 units in the last place, NaN for NaN.
 * `fused` is a constant where these are inlined: whether the machine multiplies and adds in one instruction. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GK_INLINE static inline __attribute__((always_inline, unused))

GK_INLINE int32_t gk_bits(float x) {
  int32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

GK_INLINE float gk_float(int32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

GK_INLINE float gk_madd(float a, float b, float c, int fused) { return fused ? __builtin_fmaf(a, b, c) : a * b + c; }

/* a magnitude with the sign of x */
GK_INLINE float gk_with_sign(float magnitude, float x) {
  return gk_float(gk_bits(magnitude) | (gk_bits(x) & INT32_MIN));
}

/* x = n ln 2 + r with |r| <= ln 2 / 2 and -127 <= n <= 127; gives exp(r) - 1, and 2^n, which is 0 for the least n */
GK_INLINE float gk_reduced(float x, float *scale, int fused) {
  const float to_integer = 12583039.0f; /* 1.5 * 2^23 + 127: the last bits of a sum are the exponent of 2^n */
  float shifted = gk_madd(x, 1.44269504f, to_integer, fused);
  float n = shifted - to_integer;
  float r = gk_madd(n, -0.693359375f, x, fused); /* ln 2 in two parts; the first has 9 bits, so this is exact */
  r = gk_madd(n, 2.12194440e-4f, r, fused);
  float square = r * r; /* terms in pairs: a shorter chain of operations */
  float low = gk_madd(r, 0.0416662842035f, 0.1666654348373f, fused);
  float high = gk_madd(r, 0.0013946420513f, 0.0083665717393f, fused);
  float q = gk_madd(gk_madd(high, square, low, fused), r, 0.5f, fused);
  *scale = gk_float((int32_t)((uint32_t)gk_bits(shifted) << 23));
  return gk_madd(q, square, r, fused);
}

/* The square of exp(x / 2), which is never subnormal or infinite. */
GK_INLINE float gk_exp_f32(float x, int fused) {
  float scale, half = (x < -104.0f ? -104.0f : x) * 0.5f;
  float e = gk_reduced(half > 44.5f ? 44.5f : half, &scale, fused);
  float root = gk_madd(e, scale, scale, fused);
  return root * root;
}

/* exp(x) for x <= 0, where what is below the normal floats may be 0 */
GK_INLINE float gk_exp_of_negative_f32(float x, int fused) {
  float scale, e = gk_reduced(x < -88.0f ? -88.0f : x, &scale, fused);
  return gk_madd(e, scale, scale, fused);
}

/* exp(x) - 1 for |x| < 80, exact to the last place near 0, too */
GK_INLINE float gk_expm1_f32(float x, int fused) {
  float scale, e = gk_reduced(x, &scale, fused);
  return gk_madd(e, scale, scale - 1.0f, fused);
}

GK_INLINE float gk_tanh_f32(float x, int fused) {
  float a = fabsf(x);
  a = a > 10.0f ? 10.0f : a;
  float e = gk_expm1_f32(a + a, fused);
  return gk_with_sign(e / (e + 2.0f), x);
}

GK_INLINE float gk_sigmoid_f32(float x, int fused) {
  float e = gk_exp_of_negative_f32(-fabsf(x), fused);
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* 1 - exp(a P(a)) for a = |x|, where P(a) = ln(erfc(a)) / a */
GK_INLINE float gk_erf_f32(float x, int fused) {
  float a = fabsf(x);
  a = a > 4.0f ? 4.0f : a;
  float p = gk_madd(a, 8.602978596e-06f, -1.119358348e-04f, fused);
  p = gk_madd(p, a, 6.131194531e-04f, fused);
  p = gk_madd(p, a, -1.632508240e-03f, fused);
  p = gk_madd(p, a, 1.278705895e-04f, fused);
  p = gk_madd(p, a, 1.916920580e-02f, fused);
  p = gk_madd(p, a, -1.027816385e-01f, fused);
  p = gk_madd(p, a, -6.366190314e-01f, fused);
  p = gk_madd(p, a, -1.128379226f, fused);
  float scale, e = gk_reduced(a * p, &scale, fused);
  return gk_with_sign(gk_madd(e, -scale, 1.0f - scale, fused), x);
}

/* x = 2^n m with m between the square roots of 1/2 and 2 */
GK_INLINE float gk_log_f32(float x, int fused) {
  int subnormal = x < 1.17549435e-38f;
  int32_t bits = gk_bits(subnormal ? x * 8388608.0f : x);
  int32_t n = (bits - 0x3F3504F3) >> 23;
  float f = gk_float(bits - (int32_t)((uint32_t)n << 23)) - 1.0f;
  float e = (float)(subnormal ? n - 23 : n);
  float p = gk_madd(f, 0.0892717615f, -0.1434472650f, fused);
  p = gk_madd(p, f, 0.1487112641f, fused);
  p = gk_madd(p, f, -0.1656623036f, fused);
  p = gk_madd(p, f, 0.1996606737f, fused);
  p = gk_madd(p, f, -0.2500173151f, fused);
  p = gk_madd(p, f, 0.3333383799f, fused);
  float square = f * f;
  float y = gk_madd(square * f, p, e * -2.12194440e-4f, fused);
  y = gk_madd(square, -0.5f, y, fused) + f;
  y = gk_madd(e, 0.693359375f, y, fused);
  y = x > 0.0f ? y : x < 0.0f ? NAN : -INFINITY;
  return x < INFINITY ? y : x; /* infinity, and NaN whatever came of it above */
}

GK_INLINE float gk_log1p_f32(float x, int fused) {
  float u = 1.0f + x;
  float y = gk_log_f32(u, fused) + (x - (u - 1.0f)) / u;
  return u < INFINITY ? y : u;
}

/* doubles are rare in models: the C library's functions will do */
#define gk_exp_f64(x, fused) exp(x)
#define gk_tanh_f64(x, fused) tanh(x)
#define gk_erf_f64(x, fused) erf(x)
#define gk_log_f64(x, fused) log(x)
#define gk_log1p_f64(x, fused) log1p(x)
#define gk_expm1_f64(x, fused) expm1(x)
#define gk_exp_of_negative_f64(x, fused) exp(x)
GK_INLINE double gk_sigmoid_f64(double x, int fused) {
  double e = exp(-fabs(x));
  (void)fused;
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

/* an exponential less 1 of any float */
GK_INLINE float gk_any_expm1_f32(float x, int fused) {
  float small = gk_expm1_f32(x < -80.0f ? -80.0f : x > 80.0f ? 80.0f : x, fused);
  return x > 80.0f ? gk_exp_f32(x, fused) : small;
}
#define gk_any_expm1_f64(x, fused) expm1(x)

#define GK_FOR_FLOATS(name, type, suffix)                                                                              \
  GK_INLINE type gk_softplus_##name(type x, int fused) {                                                               \
    return (x > 0 ? x : 0) + gk_log1p_##name(gk_exp_of_negative_##name(-fabs##suffix(x), fused), fused);                                   \
  }                                                                                                                    \
  GK_INLINE type gk_sign_##name(type x) { return x > 0 ? 1 : x < 0 ? -1 : x; }                                         \
  GK_INLINE type gk_max_##name(type x, type y) {                                                                       \
    type larger = x > y ? x : y; /* y where either is NaN */                                                           \
    return x != x ? x : larger;                                                                                        \
  }                                                                                                                    \
  GK_INLINE type gk_min_##name(type x, type y) {                                                                       \
    type smaller = x < y ? x : y;                                                                                      \
    return x != x ? x : smaller;                                                                                       \
  }                                                                                                                    \
  GK_INLINE type gk_floor_mod_##name(type x, type y) {                                                                 \
    type r = fmod##suffix(x, y);                                                                                       \
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;                                                                   \
  }                                                                                                                    \
  /* Casts out of range are undefined in C; here they are what x86 does. */                                            \
  GK_INLINE int32_t gk_int32_##name(type x) {                                                                          \
    return x >= -2147483648.0 && x < 2147483648.0 ? (int32_t)x : INT32_MIN;                                            \
  }                                                                                                                    \
  GK_INLINE int64_t gk_int64_##name(type x) {                                                                          \
    return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (int64_t)x : INT64_MIN;                          \
  }
GK_FOR_FLOATS(f32, float, f)
GK_FOR_FLOATS(f64, double, )

/* A division by zero has no result in ONNX; here it is 0, and the smallest number by -1 wraps. */
#define GK_FOR_INTEGERS(name, type)                                                                                    \
  GK_INLINE type gk_div_##name(type x, type y) { return y == 0 ? 0 : y == (type)-1 ? (type)(0 - x) : (type)(x / y); }  \
  GK_INLINE type gk_rem_##name(type x, type y) { return y == 0 || y == (type)-1 ? 0 : (type)(x % y); }                 \
  GK_INLINE type gk_mod_##name(type x, type y) {                                                                       \
    type r = gk_rem_##name(x, y);                                                                                      \
    return r != 0 && (r < 0) != (y < 0) ? (type)(r + y) : r;                                                           \
  }                                                                                                                    \
  GK_INLINE type gk_max_##name(type x, type y) { return x > y ? x : y; }                                               \
  GK_INLINE type gk_min_##name(type x, type y) { return x < y ? x : y; }
GK_FOR_INTEGERS(i32, int32_t)
GK_FOR_INTEGERS(i64, int64_t)
GK_FOR_INTEGERS(i8, int8_t)
/* -1 is no unsigned number: a division needs no care for it */
GK_INLINE uint8_t gk_div_u8(uint8_t x, uint8_t y) { return y ? (uint8_t)(x / y) : 0; }
GK_INLINE uint8_t gk_rem_u8(uint8_t x, uint8_t y) { return y ? (uint8_t)(x % y) : 0; }
#define gk_mod_u8 gk_rem_u8
GK_INLINE uint8_t gk_max_u8(uint8_t x, uint8_t y) { return x > y ? x : y; }
GK_INLINE uint8_t gk_min_u8(uint8_t x, uint8_t y) { return x < y ? x : y; }
GK_INLINE int32_t gk_max_b(int32_t x, int32_t y) { return x | y; }
GK_INLINE int32_t gk_min_b(int32_t x, int32_t y) { return x & y; }

/* float16 in memory; the exponent is moved by a multiplication, which makes subnormals right as well */
GK_INLINE float gk_from_half(uint16_t half) {
  int32_t magnitude = (half & 0x7FFF) << 13;
  float scaled = gk_float(magnitude) * 0x1p112f;
  float x = magnitude >= 0x7C00 << 13 ? gk_float(magnitude | 0x7F800000) : scaled;
  return (half & 0x8000) != 0 ? -x : x;
}

/* to the nearest, ties to even */
GK_INLINE uint16_t gk_to_half(float x) {
  int32_t bits = gk_bits(x), sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7FFFFFFF;
  int32_t normal = (magnitude - (112 << 23) + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
  int32_t tiny = gk_bits(gk_float(magnitude) + 0.5f) - 0x3F000000; /* the addition rounds at 2^-24 */
  int32_t half = magnitude < 113 << 23 ? tiny : normal > 0x7C00 ? 0x7C00 : normal;
  half = magnitude > 0x7F800000 ? 0x7E00 : half;
  return (uint16_t)(sign | half);
}
GK_INLINE float gk_round_to_half(float x) { return gk_from_half(gk_to_half(x)); }

/* OpenMP's names for the reductions that let a NaN through */
#define GK_PRAGMA(text) _Pragma(#text)
#define GK_EXTREMES(name, type, least, greatest)                                                                       \
  GK_PRAGMA(omp declare reduction(gk_max_##name : type : omp_out = gk_max_##name(omp_out, omp_in))                     \
                initializer(omp_priv = least))                                                                         \
  GK_PRAGMA(omp declare reduction(gk_min_##name : type : omp_out = gk_min_##name(omp_out, omp_in))                     \
                initializer(omp_priv = greatest))
GK_EXTREMES(f32, float, -INFINITY, INFINITY)
GK_EXTREMES(f64, double, -INFINITY, INFINITY)
GK_EXTREMES(i32, int32_t, INT32_MIN, INT32_MAX)
GK_EXTREMES(i64, int64_t, INT64_MIN, INT64_MAX)
GK_EXTREMES(i8, int8_t, INT8_MIN, INT8_MAX)
GK_EXTREMES(u8, uint8_t, 0, UINT8_MAX)
