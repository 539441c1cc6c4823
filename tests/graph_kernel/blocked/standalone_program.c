/* Runs programs on memory of exactly the size of their tensors. The argument chooses the width of vectors. Standard input
 * has any number of runs: the number of a kernel (int32), and then the sizes (int64) and the elements of each input,
 * including weights. Standard output has the sizes (int64) and the elements of each output of all runs. Exit codes: 2 if
 * sizes do not fit, 3 if the input ends early, 4 if memory is short, 5 if several threads and one thread give different
 * results, 6 if a run changes the shapes of the processor's tiles. */
#include <pthread.h>

typedef struct {
  void (*task)(void *, size_t);
  void *work;
  size_t number;
} thread_work;

static void *do_task(void *given) {
  thread_work *w = given;
  w->task(w->work, w->number);
  return NULL;
}

static void *all_at_once(void *context, void (*task)(void *, size_t), size_t tasks, void *work) {
  pthread_t threads[tasks];
  thread_work works[tasks];
  (void)context;
  for (size_t k = 0; k < tasks; ++k) {
    works[k] = (thread_work){task, work, k};
    if (pthread_create(&threads[k], NULL, do_task, &works[k])) exit(4);
  }
  for (size_t k = 0; k < tasks; ++k) pthread_join(threads[k], NULL);
  return NULL;
}

static size_t count_of(int rank, const int64_t *sizes) {
  size_t count = 1;
  for (int k = 0; k < rank; ++k) count *= (size_t)sizes[k];
  return count;
}

/* Bytes of an element of an ONNX type: uint8, int8, bool and floats of 8 bits have one, float16 two, others four. */
static size_t size_of(int type) {
  if (type == GB_FLOAT16) return 2;
  return type == 2 || type == 3 || type == 9 || (type >= 17 && type <= 20) ? 1 : sizeof(float);
}

/* Bytes of a tensor. Two integers of 4 bits share a byte. */
static size_t bytes_of(int type, size_t count) {
  return type == 21 || type == 22 ? (count + 1) / 2 : count * size_of(type);
}

/* The shapes of the processor's tiles in this thread. A run must not change them, because onnxruntime's own products rely
 * on them. */
static void set_tiles(const unsigned char *shapes) {
#if defined(__x86_64__)
  if (gb_instructions() & GB_HAS_TILES) __asm__ volatile("ldtilecfg %0" : : "m"(*(const char(*)[64])shapes));
#endif
}

static void get_tiles(unsigned char *shapes) {
#if defined(__x86_64__)
  if (gb_instructions() & GB_HAS_TILES) __asm__ volatile("sttilecfg %0" : "=m"(*(char(*)[64])shapes));
#endif
}

int main(int count, char **arguments) {
  int32_t number;
  chosen_width = count > 1 ? atoi(arguments[1]) : 0;
  while (fread(&number, sizeof number, 1, stdin) == 1) {
    const gk_kernel *kernel = gb_chosen(gk_operators[number].kernel);
    const gb_program *p = kernel->program;
    const int inputs = kernel->inputs, outputs = kernel->outputs;
    int64_t dims[inputs + 1][8];
    const int64_t *input_sizes[inputs + 1];
    int tables = 0, failed = 0;
    while (p->tables[tables]) ++tables;
    const float *tensors[inputs + tables + 1];
    gb_constant constants[inputs + tables + 1];
    float *out[outputs + 1], *again[outputs + 1];
    gb_size sizes[p->storages_count + 1];
    for (int k = 0; k < inputs; ++k) {
      take(dims[k], (size_t)kernel->ranks[k] * sizeof(int64_t));
      const size_t length = count_of(kernel->ranks[k], input_sizes[k] = dims[k]);
      const size_t bytes = bytes_of(kernel->types[k], length);
      float *elements = malloc(bytes);
      take(elements, bytes);
      tensors[k] = elements;
      constants[k] = (gb_constant){elements, (ptrdiff_t)length};
    }
    for (int k = 0; k < tables; ++k) tensors[inputs + k] = constants[inputs + k].data = p->tables[k];
    gb_state *state = gb_new(kernel, constants);
    if (!state) exit(4);
    if (gb_sizes(kernel, input_sizes, sizes)) exit(2);
    int64_t made[outputs + 1][4];
    for (int k = 0; k < p->steps_count; ++k) {
      const gb_step *s = &p->steps[k];
      if (s->op != GB_STORE) continue;
      gb_stored(kernel, s, sizes, made[s->out]);
      const size_t bytes = count_of(kernel->ranks[inputs + s->out], made[s->out]) * size_of(kernel->types[inputs + s->out]);
      out[s->out] = malloc(bytes);
      again[s->out] = malloc(bytes);
    }
    const unsigned char shapes[64] = {1, [16] = 28, [48] = 7}; /* one tile of 7 rows of 28 bytes */
    unsigned char left[64];
    memcpy(left, shapes, sizeof left);
    set_tiles(shapes);
    gb_run(state, sizes, input_sizes, tensors, out, one_after_another, NULL, &failed);
    get_tiles(left);
    if (memcmp(left, shapes, sizeof left)) exit(6);
    gb_run(state, sizes, input_sizes, tensors, again, all_at_once, NULL, &failed); /* with the memory as the first run left it */
    if (failed) exit(4);
    for (int k = 0; k < outputs; ++k) {
      const int rank = kernel->ranks[inputs + k];
      const size_t size = size_of(kernel->types[inputs + k]);
      if (memcmp(out[k], again[k], count_of(rank, made[k]) * size)) exit(5);
      fwrite(made[k], sizeof(int64_t), (size_t)rank, stdout);
      fwrite(out[k], size, count_of(rank, made[k]), stdout);
      free(out[k]);
      free(again[k]);
    }
    gb_free(state);
    for (int k = 0; k < inputs; ++k) free((void *)(uintptr_t)tensors[k]);
  }
  return 0;
}
