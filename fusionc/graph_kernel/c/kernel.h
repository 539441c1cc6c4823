/* The parts of a kernel of loops. A kernel has pieces. Each piece is a nest of loops: loops over
 * grid variables outside, and loops over row variables inside.
 *
 * An access reads or writes a tensor at offset + sum of (variable * stride), in elements. A body is
 * a function that computes `rows` rows. */
#include <stddef.h>

typedef struct {
  short tensor;  /* inputs first, then outputs, then tables */
  short bytes;   /* the bytes of an element */
  short unit;    /* the stride along the last row variable that fast bodies assume */
  short varies;  /* whether fast bodies use the stride of the piece instead */
  short rowwise; /* whether the access depends on row variables */
} gk_access;

typedef struct {
  ptrdiff_t extent[GK_VARIABLES];
  ptrdiff_t stride[GK_ACCESSES][GK_VARIABLES];
  ptrdiff_t offset[GK_ACCESSES];
  ptrdiff_t number[GK_NUMBERS]; /* the sizes that steps compute with */
  const double *scalar;         /* constants of the model */
} gk_piece;

typedef void gk_body(const gk_piece *, char *const *base, ptrdiff_t rows, ptrdiff_t n,
                     char *scratch);

typedef struct {
  gk_body *const *bodies; /* for any x86-64, for AVX2, for AVX-512; and, if they need it, a last one
                             for any strides */
  const gk_access *access;
  short accesses, grid, row; /* the numbers of accesses, grid variables and row variables */
  short divisible; /* whether a row can be computed in parts, because nothing is reduced */
  int scratch;     /* the bytes of memory for each element of a row */
  int cost;        /* the time for an element, in 1/16 ns */
  int scalar;      /* the index of its first scalar in the kernel's scalars */
} gk_form;

/* The operators of an area as an ONNX model. Its inputs and outputs are named p0, p1, … */
typedef struct {
  const char *model;
  size_t bytes;
  _Atomic(void *) session; /* runs the operators; NULL until it is created */
} gk_operators_of;

typedef struct gk_kernel {
  const char *name;
  short inputs, outputs, pieces;
  const short *types, *ranks; /* of the inputs, then of the outputs */
  const char *(*plan)(const int64_t *const *in, int64_t *const *out, gk_piece *pieces);
  const gk_form *forms;
  const void *const *tables;
  const double *scalars; /* of all pieces */
  const struct gb_program
      *program; /* of an area in a blocked layout, which does not use the five fields above */
  gk_operators_of *otherwise; /* runs the operators for sizes that the kernel does not support */
  /* the same kernel with a program of narrow numbers, for processors that have instructions for
   * these; or NULL */
  const struct gk_kernel *narrow;
} gk_kernel;

/* The start and the length of a Slice. Negative bounds count from the end. All bounds are limited
 * to the size. */
static inline int64_t gk_slice_start(int64_t size, int64_t start, int64_t step) {
  if (start < 0) start += size;
  if (start < 0) return 0;
  return start < size ? start : step < 0 ? size - 1 : size;
}

static inline int64_t gk_slice_length(int64_t size, int64_t start, int64_t end, int64_t step) {
  if (size == 0) return 0;
  start = gk_slice_start(size, start, step);
  if (end < 0) end += size;
  if (end < 0) end = step < 0 ? -1 : 0;
  if (end > size - (step < 0)) end = size - (step < 0);
  int64_t length = step > 0 ? (end - start + step - 1) / step : (start - end - step - 1) / -step;
  return length > 0 ? length : 0;
}

/* Prefetches the cache lines of `count` elements, 2 KiB after p. A cheap kernel mostly waits for
 * memory, and the processor itself prefetches only up to the end of a page. */
#define GK_AHEAD(p, stride, count)                                  \
  if ((stride) == 1)                                                \
    for (size_t line = 0; line < (count) * sizeof *(p); line += 64) \
  __builtin_prefetch((const void *)((uintptr_t)(p) + 2048 + line), 0, 3)

/* Whether a row is long enough for prefetching. The bodies for any x86-64 never prefetch: few
 * processors run them, and they compile faster without a second loop. */
#if defined(__x86_64__)
#define GK_IS_LONG(n, least, machine) ((machine).fused && (n) >= (least))
#else
#define GK_IS_LONG(n, least, machine) ((n) >= (least))
#endif

/* The bodies of a piece. `fast` are the strides along the last row variable that the fast bodies
 * use, which are constants if possible. `any` are the strides of the piece. */
#define GK_LIST(...) __VA_ARGS__
#define GK_PARAMETERS \
  const gk_piece *q, char *const *base, ptrdiff_t rows, ptrdiff_t n, char *scratch
#define GK_BODY(name, machine, fused, ...)                                       \
  static void name##_##machine(GK_PARAMETERS) {                                  \
    name##_body(q, base, rows, n, scratch, gk_machine_with(fused), __VA_ARGS__); \
  }
#if defined(__x86_64__)
#define GK_AVX2 __attribute__((target("avx2,fma")))
#define GK_AVX512 \
  __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma,prefer-vector-width=512")))
#define GK_FAST_BODIES(name, fast)  \
  GK_BODY(name, 0, 0, fast)         \
  GK_AVX2 GK_BODY(name, 1, 1, fast) \
  GK_AVX512 GK_BODY(name, 2, 1, fast)
#define GK_FAST(name) name##_0, name##_1, name##_2
#define GK_FUSED 0
#else
#define GK_FAST_BODIES(name, fast) GK_BODY(name, 0, GK_FUSED, fast)
#define GK_FAST(name) name##_0, name##_0, name##_0
#if defined(__FP_FAST_FMAF)
#define GK_FUSED 1
#else
#define GK_FUSED 0
#endif
#endif
#define GK_BODIES(name, fast)         \
  GK_FAST_BODIES(name, GK_LIST(fast)) \
  gk_body *const name##_bodies[] = {GK_FAST(name), NULL};
#define GK_BODIES_AND_ANY(name, fast, any) \
  GK_FAST_BODIES(name, GK_LIST(fast))      \
  GK_BODY(name, 3, GK_FUSED, any)          \
  gk_body *const name##_bodies[] = {GK_FAST(name), name##_3};
