/* Runs a kernel of loops. Adjacent loops are joined into one if, with the sizes of this run, they
 * are contiguous for every access. */
#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { GK_CHUNK = 2048, GK_GRAIN = 16384, GK_TASKS = 64, GK_STACK = 32768 };

/* Calls task(work, 0) to task(work, tasks - 1) on several threads, and waits until all are done.
 * Returns NULL or an error. */
typedef void *gk_parallel(void *context, void (*task)(void *, size_t), size_t tasks, void *work);

/* The number of the best body for this machine. The processor is asked directly, because some
 * compilers have no library function for this. */
static int gk_best_body(void) {
#if defined(__x86_64__)
  unsigned a, b, c, d, enabled;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1))
    return 0; /* the operating system does not save wide registers */
  int fused = (c >> 12 & 1) && (c >> 29 & 1); /* and float16, which all these processors have */
  __asm__ volatile("xgetbv" : "=a"(enabled), "=d"(d) : "c"(0));
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
  int avx2 = b >> 5 & 1;
  int avx512 =
      (b >> 16 & 1) && (b >> 17 & 1) && (b >> 30 & 1) && (b >> 31 & 1); /* foundation, DQ, BW, VL */
  if ((enabled & 0xE6) == 0xE6 && avx512 && fused) return 2;
  if ((enabled & 6) == 6 && avx2 && fused) return 1;
#endif
  return 0;
}

/* Whether loop k could be the innermost one for fast bodies, which assume certain strides of the
 * innermost loop. */
static int gk_fits(const gk_form *form, const gk_piece *q, int k) {
  for (int a = 0; a < form->accesses; ++a) {
    const gk_access *access = &form->access[a];
    if (access->rowwise && !access->varies && q->stride[a][k] != access->unit) return 0;
  }
  return 1;
}

/* Joins adjacent loops among the loops from `first` to `last`, if possible. The loops that remain
 * are the last ones; the others get the extent 1. Returns the first loop that remains. */
static int gk_collapse(const gk_form *form, gk_piece *q, int first, int last, int into_row) {
  const int innermost = form->grid + form->row - 1;
  int kept = last;
  for (int k = last - 1; k >= first; --k) {
    int one = q->extent[k] == 1 || q->extent[kept] != 1 || kept != innermost || form->bodies[3] ||
              gk_fits(form, q, k);
    if (q->extent[k] != 1)
      for (int a = 0; a < form->accesses && one; ++a) {
        ptrdiff_t step = q->stride[a][k], inner = q->stride[a][kept];
        /* An inner loop of one iteration may have any stride. But an access that is read once for
         * each row must not become one that changes within the row. */
        one = step == q->extent[kept] * inner ||
              (q->extent[kept] == 1 && !(into_row && kept == last && !form->access[a].rowwise));
      }
    if (one && q->extent[k] != 1) {
      if (q->extent[kept] == 1)
        for (int a = 0; a < form->accesses; ++a) q->stride[a][kept] = q->stride[a][k];
      q->extent[kept] *= q->extent[k];
    } else if (!one) {
      --kept;
      q->extent[kept] = q->extent[k];
      for (int a = 0; a < form->accesses; ++a) q->stride[a][kept] = q->stride[a][k];
    }
  }
  for (int k = first; k < kept; ++k) q->extent[k] = 1;
  return kept;
}

typedef struct {
  const gk_form *form;
  const gk_piece *q;
  gk_body *body;
  char *const *base;
  ptrdiff_t units, tasks, chunks, n, scratch;
  int first, rows; /* the outermost remaining grid loop, and the grid loop whose iterations are the
                      rows of one call */
  _Atomic int failed;
} gk_work;

static void gk_units(const gk_work *w, ptrdiff_t unit, ptrdiff_t end, char *scratch) {
  const gk_piece *q = w->q;
  const int last = w->form->grid + w->form->row - 1;
  const ptrdiff_t rows = w->rows >= w->first ? q->extent[w->rows] : 1;
  char *base[GK_ACCESSES];
  while (unit < end) {
    ptrdiff_t chunk = unit % w->chunks, outer = unit / w->chunks, row = outer % rows;
    ptrdiff_t count = w->chunks > 1 ? 1 : end - unit < rows - row ? end - unit : rows - row;
    ptrdiff_t n = w->n - chunk * GK_CHUNK;
    for (int a = 0; a < w->form->accesses; ++a) {
      ptrdiff_t at = w->chunks > 1 ? chunk * GK_CHUNK * q->stride[a][last] : 0, rest = outer / rows;
      if (w->rows >= w->first) at += row * q->stride[a][w->rows];
      for (int k = w->rows - 1; k >= w->first; --k) {
        at += rest % q->extent[k] * q->stride[a][k];
        rest /= q->extent[k];
      }
      base[a] = w->base[a] + at * w->form->access[a].bytes;
    }
    w->body(q, base, count, w->chunks > 1 && n > GK_CHUNK ? GK_CHUNK : n, scratch);
    unit += count;
  }
}

static void gk_task(void *work, size_t task) {
  gk_work *w = work;
  _Alignas(64) char stack[GK_STACK];
  char *scratch = stack;
  if (w->scratch > GK_STACK && (scratch = malloc((size_t)w->scratch)) == NULL) {
    w->failed = 1;
    return;
  }
  /* units * task stays far below 2^63, because there are at most GK_TASKS tasks */
  gk_units(w, w->units * (ptrdiff_t)task / w->tasks, w->units * (ptrdiff_t)(task + 1) / w->tasks,
           scratch);
  if (scratch != stack) free(scratch);
}

/* Runs one piece. Returns NULL, or the error of `parallel`. Sets *failed if there is not enough
 * memory. */
static void *gk_run(const gk_form *form, gk_piece *q, char *const *tensors, gk_parallel *parallel,
                    void *context, int *failed) {
  static _Atomic int machine = -1;
  if (machine < 0) machine = gk_best_body();
  char *base[GK_ACCESSES];
  gk_work w = {form, q, form->bodies[machine], base, 1, 1, 1, 1, 0, 0, 0, 0};
  const int last = form->grid + form->row - 1;
  double elements = 1;
  for (int k = 0; k <= last; ++k) elements *= (double)q->extent[k];
  for (int a = 0; a < form->accesses; ++a)
    base[a] = tensors[form->access[a].tensor] + q->offset[a] * form->access[a].bytes;
  if (form->divisible) {
    w.first = gk_collapse(form, q, 0, last, 1);
  } else {
    w.first = form->grid ? gk_collapse(form, q, 0, form->grid - 1, 0) : 0;
    gk_collapse(form, q, form->grid, last, 0);
  }
  w.rows = form->grid - 1;
  for (int k = w.first; k < form->grid; ++k) w.units *= q->extent[k];
  w.n = q->extent[last];
  if (w.n != 1 && !gk_fits(form, q, last)) w.body = form->bodies[3];
  if (form->divisible && w.n > GK_CHUNK) w.chunks = (w.n + GK_CHUNK - 1) / GK_CHUNK;
  w.units *= w.chunks;
  w.scratch = form->scratch;
  for (int k = form->grid; k <= last; ++k) w.scratch *= q->extent[k] ? q->extent[k] : 1;
  double tasks = elements * form->cost / (16.0 * GK_GRAIN);
  w.tasks = tasks < 1 ? 1 : tasks > GK_TASKS ? GK_TASKS : (ptrdiff_t)tasks;
  if (w.tasks > w.units) w.tasks = w.units;
  void *error = NULL;
  if (w.tasks > 1) error = parallel(context, gk_task, (size_t)w.tasks, &w);
  if (w.tasks == 1) gk_task(&w, 0);
  *failed |= w.failed;
  return error;
}
