/* The functions that expressions of kernels call. They do not branch on values, so that loops over
 * them become vector instructions.
 *
 * exp, log, tanh, erf, sigmoid, asin, acos and atan of floats are implemented here. Their errors
 * are at most 4 units in the last place; the error of erf is less than 1. NaN gives NaN. */
#ifndef GK_INLINE
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define GK_INLINE static inline __attribute__((always_inline, unused))

/* Hides the value of a variable from the compiler. For a bound that it knows, gcc writes a
 * comparison and a blend; for a hidden bound, it writes a single instruction. */
#if defined(__x86_64__)
#define GK_HIDE(variable) __asm__("" : "+x"(variable))
#else
#define GK_HIDE(variable) (void)(variable)
#endif

/* The machine for which a function is compiled. `fused` says whether one instruction multiplies and
 * adds; it is a constant after inlining. The other members are bounds, which are hidden from the
 * compiler. */
typedef struct {
  int fused;
  float one, exp_least, exp_most, negative_least, sigmoid_least, sigmoid_most, tanh_most, erf_most;
} gk_machine;

GK_INLINE gk_machine gk_machine_with(int fused) {
  gk_machine m = {fused, 1.0f, -104.0f, 89.0f, -88.0f, -89.0f, 88.0f, 9.498f, 4.0f};
  GK_HIDE(m.one);
  GK_HIDE(m.exp_least);
  GK_HIDE(m.exp_most);
  GK_HIDE(m.negative_least);
  GK_HIDE(m.sigmoid_least);
  GK_HIDE(m.sigmoid_most);
  GK_HIDE(m.tanh_most);
  GK_HIDE(m.erf_most);
  return m;
}

/* x limited by one bound; NaN stays NaN */
GK_INLINE float gk_at_least(float x, float least) { return x < least ? least : x; }
GK_INLINE float gk_at_most(float x, float most) { return x > most ? most : x; }

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

GK_INLINE float gk_madd(float a, float b, float c, int fused) {
  return fused ? __builtin_fmaf(a, b, c) : a * b + c;
}

/* The same as gk_madd, but with a single rounding on every machine. It is slow on the few machines
 * without such an instruction. */
GK_INLINE float gk_madd_once(float a, float b, float c, int fused) {
  return fused ? __builtin_fmaf(a, b, c) : (float)((double)a * b + c);
}

/* The sum of x and this number contains x, rounded to an integer n, in its last bits. If 127 is
 * added to this number, the sum contains the exponent of 2^n there. */
#define GK_TO_INTEGER 12582912.0f /* 1.5 * 2^23 */
GK_INLINE int32_t gk_exponent(float shifted) { return (int32_t)((uint32_t)gk_bits(shifted) << 23); }

/* ln 2 as a sum of two numbers; the first one has 9 bits, so that its products with n are exact */
#define GK_LN2_HIGH 0.693359375f
#define GK_LN2_LOW -2.12194440e-4f

/* Writes x as n ln 2 + r, with |r| <= ln 2 / 2 and -127 <= n <= 128. Returns r, and sets *scale to
 * 2^n, which is 0 for the smallest n, and infinite for the largest n. */
GK_INLINE float gk_reduced(float x, float *scale, int fused) {
  float shifted = gk_madd(x, 1.44269504f, GK_TO_INTEGER + 127, fused);
  float n = shifted - (GK_TO_INTEGER + 127);
  *scale = gk_float(gk_exponent(shifted));
  return gk_madd(n, -GK_LN2_LOW, gk_madd(n, -GK_LN2_HIGH, x, fused), fused);
}

/* exp(x), computed as the square of exp(x / 2), which is never subnormal or infinite. r is twice
 * the remainder of x / 2. */
GK_INLINE float gk_exp_f32(float x, gk_machine m) {
  float c = gk_at_most(gk_at_least(x, m.exp_least), m.exp_most);
  float shifted = gk_madd(c, 0.5f * 1.44269504f, GK_TO_INTEGER, m.fused);
  float n = shifted - GK_TO_INTEGER;
  float r = gk_madd(n, -2 * GK_LN2_HIGH, c, m.fused);
  r = gk_madd(n, -2 * GK_LN2_LOW, r, m.fused);
  float p = gk_madd(r, 0.001381893875f / 64, 0.008368703537f / 32, m.fused);
  p = gk_madd(p, r, 0.04166828841f / 16, m.fused);
  p = gk_madd(p, r, 0.1666652113f / 8, m.fused);
  p = gk_madd(p, r, 0.4999999404f / 4, m.fused);
  p = gk_madd(p, r, 0.5f, m.fused);
  p = gk_madd(p, r, 1.0f, m.fused);
  float root = gk_float(gk_bits(p) + gk_exponent(shifted));
  return x == x ? root * root : x; /* otherwise the payload of a NaN would become an exponent */
}

/* exp(r) for |r| <= ln 2 / 2 */
GK_INLINE float gk_exp_of_rest(float r, int fused) {
  float p = gk_madd(r, 0.001381893875f, 0.008368703537f, fused);
  p = gk_madd(p, r, 0.04166828841f, fused);
  p = gk_madd(p, r, 0.1666652113f, fused);
  p = gk_madd(p, r, 0.4999999404f, fused);
  p = gk_madd(p, r, 1.0f, fused);
  return gk_madd(p, r, 1.0f, fused);
}

/* exp(x) for x <= 0. Results that would be subnormal may be 0. */
GK_INLINE float gk_exp_of_negative_f32(float x, gk_machine m) {
  float scale, r = gk_reduced(gk_at_least(x, m.negative_least), &scale, m.fused);
  return gk_exp_of_rest(r, m.fused) * scale;
}

GK_INLINE float gk_sigmoid_f32(float x, gk_machine m) {
  float c =
      gk_at_most(gk_at_least(x, m.sigmoid_least), m.sigmoid_most); /* exp(89) is infinite here */
  float scale, r = gk_reduced(-c, &scale, m.fused);
  return 1.0f / gk_madd(gk_exp_of_rest(r, m.fused), scale, 1.0f, m.fused);
}

/* exp(x) - 1 for |x| < 80. It is accurate to the last place, even near 0. */
GK_INLINE float gk_expm1_f32(float x, gk_machine m) {
  float scale, r = gk_reduced(x, &scale, m.fused);
  float q = gk_madd(r, 0.001386831631f, 0.008366423659f, m.fused);
  q = gk_madd(q, r, 0.04166746512f, m.fused);
  q = gk_madd(q, r, 0.1666654497f, m.fused);
  q = gk_madd(q, r, 0.4999999702f, m.fused);
  float e = gk_madd(q * r, r, r, m.fused);
  return gk_madd(e, scale, scale - 1.0f, m.fused);
}

/* 2 t / (1 + t^2) for t = a / b. This is tanh(y) if t is tanh(y / 2). If t is near 1, an error of t
 * hardly changes the result. */
GK_INLINE float gk_of_half(float a, float b, gk_machine m) {
  float whole = (a + a) * b / gk_madd(b, b, a * a, m.fused);
  return gk_at_most(gk_at_least(whole, -m.one), m.one);
}

/* tanh(x), computed from tanh(x / 2) = x P(x^2) / Q(x^2). x is limited to the smallest number whose
 * result is 1. */
GK_INLINE float gk_tanh_f32(float x, gk_machine m) {
  float c = gk_at_most(gk_at_least(x, -m.tanh_most), m.tanh_most), u = c * c;
  float p = gk_madd(u, 0.00010677625f, 0.0278976373f, m.fused);
  p = gk_madd(p, u, 0.9375f, m.fused);
  float q = gk_madd(u, 2.28986823e-06f, 0.00225905888f, m.fused);
  q = gk_madd(q, u, 0.212045208f, m.fused);
  q = gk_madd(q, u, 1.875f, m.fused);
  return gk_of_half(p * c, q, m);
}

/* erf(x), with an error of less than 1 unit in the last place. The error must be small, because
 * near -5 the result of a GELU depends on the difference 1 + erf(x). Near 0, erf is x + x P(x^2 -
 * 1/2). From 1.08 on, it is 1 - 2^(t Q(t)) with t = |x|; the error of this vanishes as erf(x)
 * approaches 1. Q is fitted to onnxruntime's results, which are a third of a unit too low at 2.
 * From 2 on, 99 of 100 results are the same. */
GK_INLINE float gk_erf_f32(float x, gk_machine m) {
  float t = gk_at_most(fabsf(x), m.erf_most), v = gk_madd_once(x, x, -0.5f, m.fused);
  float p = gk_madd(v, 7.33448251e-05f, -0.000565449824f, m.fused);
  p = gk_madd(p, v, 0.00348234712f, m.fused);
  p = gk_madd(p, v, -0.018283315f, m.fused);
  p = gk_madd(p, v, 0.0794097781f, m.fused);
  p = gk_madd(p, v, -0.281072199f, m.fused);
  p = gk_madd(p, v, -0.034531258f, m.fused);
  float q = gk_madd(t, 3.37341561e-07f, -2.94581114e-05f, m.fused);
  q = gk_madd(q, t, 0.000578403764f, m.fused);
  q = gk_madd(q, t, -0.00568339787f, m.fused);
  q = gk_madd(q, t, 0.0351414606f, m.fused);
  q = gk_madd(q, t, -0.154213428f, m.fused);
  q = gk_madd(q, t, -0.915790141f, m.fused);
  q = gk_madd_once(q, t, -1.62842047f, m.fused);
  float shifted = gk_madd(q, t, GK_TO_INTEGER + 127, m.fused),
        scale = gk_float(gk_exponent(shifted));
  float f = gk_madd_once(q, t, -(shifted - (GK_TO_INTEGER + 127)), m.fused);
  float e = gk_madd(f, 0.00015462884f, 0.00133909844f, m.fused);
  e = gk_madd(e, f, 0.00961806253f, m.fused);
  e = gk_madd(e, f, 0.0555035956f, m.fused);
  e = gk_madd(e, f, 0.240226507f, m.fused);
  e = gk_madd(e, f, 0.693147182f, m.fused);
  float far = 1.0f - gk_madd(e * f, scale, scale, m.fused);
  return t > 1.08f ? copysignf(far, x) : gk_madd_once(p, x, x, m.fused);
}

/* log(x), with x = 2^n m, and m between the square roots of 1/2 and 2 */
GK_INLINE float gk_log_f32(float x, gk_machine m) {
  int subnormal = x < 1.17549435e-38f;
  int32_t bits = gk_bits(subnormal ? x * 8388608.0f : x);
  int32_t n = (bits - 0x3F3504F3) >> 23;
  float f = gk_float(bits - (int32_t)((uint32_t)n << 23)) - 1.0f;
  float e = (float)(subnormal ? n - 23 : n);
  float p = gk_madd(f, 0.0892717615f, -0.1434472650f, m.fused);
  p = gk_madd(p, f, 0.1487112641f, m.fused);
  p = gk_madd(p, f, -0.1656623036f, m.fused);
  p = gk_madd(p, f, 0.1996606737f, m.fused);
  p = gk_madd(p, f, -0.2500173151f, m.fused);
  p = gk_madd(p, f, 0.3333383799f, m.fused);
  float square = f * f;
  float y = gk_madd(square * f, p, e * -2.12194440e-4f, m.fused);
  y = gk_madd(square, -0.5f, y, m.fused) + f;
  y = gk_madd(e, 0.693359375f, y, m.fused);
  y = x > 0.0f ? y : x < 0.0f ? NAN : -INFINITY;
  return x < INFINITY ? y : x; /* infinity stays infinite, and NaN stays NaN */
}

GK_INLINE float gk_log1p_f32(float x, gk_machine m) {
  float u = 1.0f + x;
  float y = gk_log_f32(u, m) + (x - (u - 1.0f)) / u;
  return u < INFINITY ? y : u;
}

/* Up to this magnitude, sine and cosine are computed here; beyond it, by the C library. A loop
 * tests all magnitudes first, so that it can become vector instructions. */
#define GK_NEAR_0 4194304.0f /* 2^22 */
GK_INLINE int gk_is_far(float x) { return fabsf(x) > GK_NEAR_0; }

GK_INLINE double gk_madd_f64(double a, double b, double c, int fused) {
  return fused ? __builtin_fma(a, b, c) : a * b + c;
}

/* sin(x + quarter * pi / 2), computed in doubles: x = n pi / 2 + r. pi / 2 is written as a sum of
 * two numbers. The first one has 25 bits, so that its products with n are exact; r is exact to
 * 2^-57. The last bits of n choose the sine or cosine of r, and the sign. */
GK_INLINE float gk_wave(float x, int64_t quarter, int fused) {
  const double to_integer = 0x1.8p52;
  double d = x, shifted = gk_madd_f64(d, 0.6366197723675814, to_integer, fused),
         n = shifted - to_integer;
  double r = gk_madd_f64(n, -1.5893254773528196e-08, gk_madd_f64(n, -1.5707963109016418, d, fused),
                         fused),
         z = r * r;
  double s = gk_madd_f64(z, -0.00019514957608148103, 0.008332158409441808, fused);
  s = gk_madd_f64(s, z, -0.16666654573131023, fused);
  s = r * gk_madd_f64(s, z, 1.0, fused);
  double c = gk_madd_f64(z, 2.438314466443539e-05, -0.0013886677159757942, fused);
  c = gk_madd_f64(c, z, 0.04166662021516402, fused);
  c = gk_madd_f64(c, z, -0.49999999693219843, fused);
  c = gk_madd_f64(c, z, 1.0, fused);
  int64_t bits, sign;
  memcpy(&bits, &shifted, sizeof bits);
  bits += quarter;
  double y = bits & 1 ? c : s;
  memcpy(&sign, &y, sizeof sign);
  sign ^= (int64_t)((uint64_t)(bits & 2) << 62);
  memcpy(&y, &sign, sizeof y);
  return (float)y;
}
#define gk_near_sin_f32(x, m) gk_wave(x, 0, (m).fused)
#define gk_near_cos_f32(x, m) gk_wave(x, 1, (m).fused)
GK_INLINE float gk_sin_f32(float x, gk_machine m) {
  return gk_is_far(x) ? sinf(x) : gk_near_sin_f32(x, m);
}
GK_INLINE float gk_cos_f32(float x, gk_machine m) {
  return gk_is_far(x) ? cosf(x) : gk_near_cos_f32(x, m);
}
#define gk_sin_f64(x, m) sin(x)
#define gk_cos_f64(x, m) cos(x)

/* atan(x) is pi / 2 - atan(1 / x) for x > 1, and t + t^3 P(t^2) up to 1 */
GK_INLINE float gk_atan_f32(float x, gk_machine m) {
  float size = fabsf(x), t = size > m.one ? m.one / size : size, z = t * t;
  float p = gk_madd(z, -0.00242353625f, 0.0136558153f, m.fused);
  p = gk_madd(p, z, -0.0361157331f, m.fused);
  p = gk_madd(p, z, 0.0627119963f, m.fused);
  p = gk_madd(p, z, -0.0866694889f, m.fused);
  p = gk_madd(p, z, 0.11036394f, m.fused);
  p = gk_madd(p, z, -0.142789083f, m.fused);
  p = gk_madd(p, z, 0.199997562f, m.fused);
  p = gk_madd(p, z, -0.333333319f, m.fused);
  float y = gk_madd(p * z, t, t, m.fused);
  return copysignf(size > m.one ? 1.57079637f - (y + 4.37113883e-8f) : y, x);
}

/* asin(t) as t + t^3 P(t^2). If |x| <= 1/2, t is |x|. Otherwise, t is the root of (1 - |x|) / 2:
 * the sine of half of acos |x|. The result is NaN beyond 1. */
GK_INLINE float gk_near_asin_f32(float size, int is_near, int fused) {
  float z = is_near ? size * size : 0.5f - 0.5f * size, t = is_near ? size : sqrtf(z);
  float p = gk_madd(z, 0.038196291f, 0.0264993706f, fused);
  p = gk_madd(p, z, 0.0450099013f, fused);
  p = gk_madd(p, z, 0.0749881319f, fused);
  p = gk_madd(p, z, 0.166666727f, fused);
  return gk_madd(p * z, t, t, fused);
}

GK_INLINE float gk_asin_f32(float x, gk_machine m) {
  float size = fabsf(x);
  int is_near = size <= 0.5f;
  float y = gk_near_asin_f32(size, is_near, m.fused);
  return copysignf(is_near ? y : 1.57079637f - (2.0f * y + 4.37113883e-8f), x);
}

GK_INLINE float gk_acos_f32(float x, gk_machine m) {
  float size = fabsf(x);
  int is_near = size <= 0.5f;
  float y = gk_near_asin_f32(size, is_near, m.fused);
  float far = x < 0.0f ? 3.14159274f - (2.0f * y + 8.74227766e-8f) : 2.0f * y;
  return is_near ? 1.57079637f - (copysignf(y, x) + 4.37113883e-8f) : far;
}

/* doubles are rare in models, so the C library's functions suffice */
#define gk_exp_f64(x, m) exp(x)
#define gk_tanh_f64(x, m) tanh(x)
#define gk_erf_f64(x, m) erf(x)
#define gk_log_f64(x, m) log(x)
#define gk_log1p_f64(x, m) log1p(x)
#define gk_exp_of_negative_f64(x, m) exp(x)
GK_INLINE double gk_sigmoid_f64(double x, gk_machine m) {
  double e = exp(-fabs(x));
  (void)m;
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

/* The operator Sigmoid, as in onnxruntime: very small results are 0. This matters, because 0 and a
 * small number have different signs (for the operator Sign). */
GK_INLINE float gk_logistic_f32(float x, gk_machine m) {
  return x <= -18.0f ? 0.0f : gk_sigmoid_f32(x, m);
}
GK_INLINE double gk_logistic_f64(double x, gk_machine m) {
  return x < -36.7368005696771 ? 0.0 : gk_sigmoid_f64(x, m);
}

/* exp(x) - 1 for any float */
GK_INLINE float gk_any_expm1_f32(float x, gk_machine m) {
  float small = gk_expm1_f32(gk_at_most(gk_at_least(x, -80.0f), 80.0f), m);
  return x > 80.0f ? gk_exp_f32(x, m) : small;
}
#define gk_any_expm1_f64(x, m) expm1(x)

#define GK_FOR_FLOATS(name, type, suffix)                                                         \
  GK_INLINE type gk_softplus_##name(type x, gk_machine m) {                                       \
    return (x > 0 ? x : 0) + gk_log1p_##name(gk_exp_of_negative_##name(-fabs##suffix(x), m), m);  \
  }                                                                                               \
  GK_INLINE type gk_sign_##name(type x) { return x > 0 ? 1 : x < 0 ? -1 : x + 0; } /* 0 for -0 */ \
  GK_INLINE type gk_max_##name(type x, type y) {                                                  \
    type larger = x > y ? x : y; /* y if either is NaN */                                         \
    return x != x ? x : larger;                                                                   \
  }                                                                                               \
  GK_INLINE type gk_min_##name(type x, type y) {                                                  \
    type smaller = x < y ? x : y;                                                                 \
    return x != x ? x : smaller;                                                                  \
  }                                                                                               \
  GK_INLINE type gk_floor_mod_##name(type x, type y) {                                            \
    type r = fmod##suffix(x, y);                                                                  \
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;                                              \
  }                                                                                               \
  /* Casts out of range are undefined in C; here they give the results of x86. */                 \
  GK_INLINE int32_t gk_int32_##name(type x) {                                                     \
    return x >= -2147483648.0 && x < 2147483648.0 ? (int32_t)x : INT32_MIN;                       \
  }                                                                                               \
  GK_INLINE int64_t gk_int64_##name(type x) {                                                     \
    return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (int64_t)x : INT64_MIN;     \
  }
GK_FOR_FLOATS(f32, float, f)
GK_FOR_FLOATS(f64, double, )

/* A division by zero is undefined in ONNX; here its result is 0. The smallest number divided by -1
 * is itself. */
#define GK_FOR_INTEGERS(name, type)                                      \
  GK_INLINE type gk_div_##name(type x, type y) {                         \
    return y == 0 ? 0 : y == (type) - 1 ? (type)(0 - x) : (type)(x / y); \
  }                                                                      \
  GK_INLINE type gk_rem_##name(type x, type y) {                         \
    return y == 0 || y == (type) - 1 ? 0 : (type)(x % y);                \
  }                                                                      \
  GK_INLINE type gk_mod_##name(type x, type y) {                         \
    type r = gk_rem_##name(x, y);                                        \
    return r != 0 && (r < 0) != (y < 0) ? (type)(r + y) : r;             \
  }                                                                      \
  GK_INLINE type gk_max_##name(type x, type y) { return x > y ? x : y; } \
  GK_INLINE type gk_min_##name(type x, type y) { return x < y ? x : y; }
GK_FOR_INTEGERS(i32, int32_t)
GK_FOR_INTEGERS(i64, int64_t)
GK_FOR_INTEGERS(i8, int8_t)
/* unsigned numbers need no case for a division by -1 */
GK_INLINE uint8_t gk_div_u8(uint8_t x, uint8_t y) { return y ? (uint8_t)(x / y) : 0; }
GK_INLINE uint8_t gk_rem_u8(uint8_t x, uint8_t y) { return y ? (uint8_t)(x % y) : 0; }
#define gk_mod_u8 gk_rem_u8
GK_INLINE uint8_t gk_max_u8(uint8_t x, uint8_t y) { return x > y ? x : y; }
GK_INLINE uint8_t gk_min_u8(uint8_t x, uint8_t y) { return x < y ? x : y; }

/* Converts float16 in memory to float. Subnormals are converted with integers, because a session
 * may read subnormals of float32 as 0. Everything except a last shift is computed with 32 bits:
 * with numbers of 16 bits, compilers would mix vectors of two widths, and moving conditions between
 * these is ten times as expensive. */
GK_INLINE float gk_from_half(uint16_t half) {
  uint32_t wide = half, magnitude = (wide & 0x7FFF) << 13;
  uint32_t normal = magnitude + (112 << 23),
           tiny = (uint32_t)gk_bits((float)(int32_t)(wide & 0x3FF) * 0x1p-24f);
  uint32_t scaled = magnitude < 0x400 << 13 ? tiny : normal;
  uint32_t endless = magnitude >= 0x7C00 << 13 ? 0x7F800000 : 0;
  return gk_float((int32_t)((wide & 0x8000) << 16 | scaled | endless));
}

/* Converts a float to the nearest float16, ties to even. */
GK_INLINE uint16_t gk_to_half(float x) {
  int32_t bits = gk_bits(x), magnitude = bits & 0x7FFFFFFF;
  int32_t normal = magnitude - (112 << 23) + 0xFFF + ((magnitude >> 13) & 1);
  normal = normal > 0x7C00 << 13 ? 0x7C00 << 13 : normal;
  normal = magnitude > 0x7F800000 ? 0x7E00 << 13 : normal;
  int32_t tiny = (gk_bits(gk_float(magnitude) + 0.5f) - 0x3F000000)
                 << 13; /* the addition rounds at 2^-24 */
  int32_t half = magnitude < 113 << 23 ? tiny : normal;
  return (uint16_t)((((uint32_t)bits & 0x80000000) | (uint32_t)half << 3) >> 16);
}
GK_INLINE float gk_round_to_half(float x) { return gk_from_half(gk_to_half(x)); }

/* OpenMP reductions that keep a NaN */
#define GK_PRAGMA(text) _Pragma(#text)
#define GK_EXTREMES(name, type, least, greatest)                                                 \
  GK_PRAGMA(omp declare reduction(gk_max_##name:type : omp_out = gk_max_##name(omp_out, omp_in)) \
                initializer(omp_priv = least))                                                   \
  GK_PRAGMA(omp declare reduction(gk_min_##name:type : omp_out = gk_min_##name(omp_out, omp_in)) \
                initializer(omp_priv = greatest))
GK_EXTREMES(f32, float, -INFINITY, INFINITY)
GK_EXTREMES(f64, double, -INFINITY, INFINITY)
GK_EXTREMES(i32, int32_t, INT32_MIN, INT32_MAX)
GK_EXTREMES(i64, int64_t, INT64_MIN, INT64_MAX)
GK_EXTREMES(i8, int8_t, INT8_MIN, INT8_MAX)
GK_EXTREMES(u8, uint8_t, 0, UINT8_MAX)
#endif
