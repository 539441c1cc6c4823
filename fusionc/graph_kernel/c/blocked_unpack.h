/* Computes weights from integers or 8-bit floats. */
enum { /* element types, as in onnx.TensorProto */
  GB_FLOAT = 1,
  GB_UINT8 = 2,
  GB_INT8 = 3,
  GB_INT32 = 6,
  GB_E4M3FN = 17,
  GB_E4M3FNUZ = 18,
  GB_E5M2 = 19,
  GB_E5M2FNUZ = 20,
  GB_UINT4 = 21,
  GB_INT4 = 22,
};

/* The float that these bits of an 8-bit type mean. */
static float gb_float8(int bits, int type) {
  const int is_e4 = type <= GB_E4M3FNUZ, mantissa = is_e4 ? 3 : 2,
            is_unsigned_zero = type == GB_E4M3FNUZ || type == GB_E5M2FNUZ, magnitude = bits & 127,
            exponent = magnitude >> mantissa, digits = magnitude & ((1 << mantissa) - 1),
            bias = (is_e4 ? 7 : 15) + is_unsigned_zero;
  const float sign = bits & 128 ? -1.0f : 1.0f;
  if (is_unsigned_zero && bits == 128) return NAN;
  if (type == GB_E4M3FN && magnitude == 127) return NAN;
  if (type == GB_E5M2 && exponent == 31) return digits ? NAN : sign * INFINITY;
  const int whole = exponent ? digits + (1 << mantissa) : digits,
            power = (exponent ? exponent : 1) - bias - mantissa;
  return sign * ldexpf((float)whole, power);
}

/* The number that these bits of a type of 8 or 4 bits mean. */
static float gb_small_number(int bits, int type) {
  switch (type) {
  case GB_UINT8:
  case GB_UINT4: return (float)bits;
  case GB_INT8: return (float)((bits ^ 128) - 128);
  case GB_INT4: return (float)((bits ^ 8) - 8);
  default: return gb_float8(bits, type);
  }
}

/* Converts the first `count` numbers of a tensor to floats. */
static void gb_decode(const void *from, int type, ptrdiff_t count, float *to) {
  const unsigned char *bytes = from;
  const int is_half = type == GB_UINT4 || type == GB_INT4;
  float numbers[256]; /* for each combination of bits, the number */
  if (type == GB_FLOAT) {
    memcpy(to, from, (size_t)count * sizeof *to);
    return;
  }
  if (type == GB_INT32) {
    for (ptrdiff_t k = 0; k < count; ++k) to[k] = (float)((const int32_t *)from)[k];
    return;
  }
  for (int bits = 0; bits < (is_half ? 16 : 256); ++bits)
    numbers[bits] = gb_small_number(bits, type);
  if (is_half)
    for (ptrdiff_t k = 0; k < count; ++k) to[k] = numbers[bytes[k / 2] >> k % 2 * 4 & 15];
  else
    for (ptrdiff_t k = 0; k < count; ++k) to[k] = numbers[bytes[k]];
}

static ptrdiff_t gb_unpacked_floats(const gb_unpacking *u) {
  ptrdiff_t count = 1;
  for (int k = 0; k < u->parts_count; ++k) count *= u->parts[k];
  return count;
}

/* The number of zero points. */
static ptrdiff_t gb_zero_points(const gb_unpacking *u) {
  ptrdiff_t last = 0;
  for (int k = 0; k < u->parts_count && u->zero >= 0; ++k)
    last += (ptrdiff_t)(u->parts[k] - 1) * u->zero_strides[k];
  return last + 1;
}

/* Subtracts zero points and multiplies by scales. */
static void gb_scale(const gb_unpacking *u, const float *scales, const float *zeros, float *to) {
  const int last = u->parts_count - 1;
  const ptrdiff_t row = last < 0 ? 1 : u->parts[last], rows = gb_unpacked_floats(u) / row,
                  scale_step = last < 0 ? 0 : u->scale_strides[last],
                  zero_step = last < 0 ? 0 : u->zero_strides[last];
  for (ptrdiff_t k = 0; k < rows; ++k, to += row) {
    ptrdiff_t scale = 0, zero = 0, rest = k;
    for (int axis = last - 1; axis >= 0; rest /= u->parts[axis--]) {
      scale += rest % u->parts[axis] * u->scale_strides[axis];
      zero += rest % u->parts[axis] * u->zero_strides[axis];
    }
    for (ptrdiff_t i = 0; i < row; ++i)
      to[i] = (to[i] - zeros[zero + i * zero_step]) * scales[scale + i * scale_step];
  }
}

/* How the weights `tensor` are computed. NULL if the tensor contains floats. */
static const gb_unpacking *gb_unpacking_of(const gb_program *p, int tensor) {
  for (const gb_unpacking *u = p->unpackings; u->packed >= 0; ++u)
    if (u->packed == tensor) return u;
  return NULL;
}

/* The floats of memory that suffice to compute any of a program's weights. */
static ptrdiff_t gb_floats_to_unpack(const gb_program *p) {
  ptrdiff_t most = 0;
  for (const gb_unpacking *u = p->unpackings; u->packed >= 0; ++u) {
    const ptrdiff_t floats = gb_unpacked_floats(u) + gb_zero_points(u);
    if (floats > most) most = floats;
  }
  return most;
}

/* Computes weights in `memory`, and returns them. */
static const float *gb_unpacked(const gb_unpacking *u, const gb_constant *constants,
                                float *memory) {
  const ptrdiff_t count = gb_unpacked_floats(u), zero_points = gb_zero_points(u);
  float *zeros = memory + count;
  gb_decode(constants[u->packed].data, u->packed_type, count, memory);
  *zeros = 0;
  if (u->zero >= 0) gb_decode(constants[u->zero].data, u->zero_type, zero_points, zeros);
  for (ptrdiff_t k = 0; k < zero_points; ++k) zeros[k] *= (float)u->zero_sign;
  gb_scale(u, constants[u->scale].data, zeros, memory);
  return memory;
}
