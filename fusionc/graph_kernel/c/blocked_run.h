/* How a program runs: sizes, memory, tasks. */
#if defined(__x86_64__)
static const gb_width *const gb_widths[] = {&GB_width_of_4, &GB_width_of_8, &GB_width_of_16}; /* by gk_best_body */
#else
static const gb_width *const gb_widths[] = {&GB_width_of_4};
#endif

enum { GB_MOST_THREADS = 64, GB_ALIGN = 64, GB_HUGE_PAGE = 2 << 20, GB_PAGE_FLOATS = 1024 };

#if defined(__linux__)
extern int madvise(void *, size_t, int); /* sys/mman.h has it only for more than C11 */
#endif

/* What a session has of a program. `spare` is the plan of the last run, which one run at a time takes. */
typedef struct {
  const gk_kernel *kernel;
  const gb_width *width;
  const float **weights, **bias; /* for each step, as its tasks read them; NULL where there is none */
  float *constants;              /* where they lie */
  _Atomic(void *) *derived;      /* floats that are made of weights, for each step whose way needs them kept */
  _Atomic(void *) spare;
} gb_state;

typedef struct {
  ptrdiff_t batch, height, width;
} gb_size;

static ptrdiff_t gb_rounded(ptrdiff_t n, ptrdiff_t to) { return (n + to - 1) / to * to; }

typedef _Atomic(ptrdiff_t) gb_counter;

/* A program with images of some sizes: its steps, and the memory that they work on. */
typedef struct {
  gb_call *calls;
  gb_counter *ended; /* for each step, how many of its tasks are done */
  gb_counter *begun; /* for each thread and step, how many of its share of the tasks some thread has begun */
  gb_size *sizes; /* of the images of each storage */
  size_t size;    /* bytes of memory */
  ptrdiff_t threads; /* that have something to do at once */
  char *memory, *scratch;
  size_t scratch_size; /* bytes of it for each thread */
} gb_plan;

static void gb_free_plan(gb_plan *plan) {
  if (plan) free(plan->memory);
  free(plan);
}

static void gb_free(gb_state *state) {
  if (!state) return;
  free(state->weights);
  free(state->bias);
  free(state->constants);
  for (int k = 0; state->derived && k < state->kernel->program->steps_count; ++k) free(state->derived[k]);
  free(state->derived);
  gb_free_plan(state->spare);
  free(state);
}

/* Memory of large pages where the system has them: tasks read and write it in many places at once. */
static void *gb_allocate(ptrdiff_t bytes) {
  const ptrdiff_t align = bytes >= GB_HUGE_PAGE ? GB_HUGE_PAGE : GB_ALIGN, size = gb_rounded(bytes > 0 ? bytes : 1, align);
  void *memory = aligned_alloc((size_t)align, (size_t)size);
#if defined(__linux__)
  if (memory && size >= GB_HUGE_PAGE) madvise(memory, (size_t)size, 14); /* MADV_HUGEPAGE */
#endif
  return memory;
}

/* Asked once: the system takes as long to answer as a step may. */
static ptrdiff_t gb_threads(void) {
  static _Atomic long threads;
  if (!threads) {
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    threads = n < 1 ? 1 : n > GB_MOST_THREADS ? GB_MOST_THREADS : n;
  }
  return threads;
}

/* What is kept of step k, of which two runs may have begun to make it: one of them is freed. */
static float *gb_keep_derived(gb_state *state, int k, float *made) {
  void *known = NULL;
  if (__atomic_compare_exchange_n((void **)&state->derived[k], &known, made, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return made;
  free(made);
  return known;
}

/* How many floats the weights of a step are as its tasks read them. */
static ptrdiff_t gb_packed_size(const gb_width *width, const gb_program *p, const gb_step *s) {
  const ptrdiff_t in = p->buffers[s->in].channels, out = gb_rounded(p->buffers[s->out].channels, width->vector);
  const ptrdiff_t taps = s->kernel[0] * s->kernel[1];
  if (s->op == GB_FIRST) return in * out * taps;
  if (gb_is_by_lane(s, in, p->buffers[s->out].channels, width->vector)) return in / s->group * out * taps;
  return gb_rounded(in / s->group, width->vector) * out * taps;
}

static void gb_pack(const gb_width *width, const gb_program *p, const gb_step *s, const float *w, float *to) {
  const ptrdiff_t in = p->buffers[s->in].channels, out = p->buffers[s->out].channels;
  if (gb_is_by_lane(s, in, out, width->vector)) width->pack_by_lane(w, to, s, in, out);
  else if (s->op == GB_TRANSPOSED || s->op == GB_PRODUCT) width->pack_transposed(w, to, s, in, out);
  else width->pack(w, to, s, in, out, s->op == GB_FIRST || s->op == GB_WINOGRAD ? 1 : width->vector);
}

/* What a session needs of a program; NULL where there is no memory. `constants` are the tensors that are weights. All
 * weights lie together: small ones would not be in large pages by themselves. */
static gb_state *gb_new(const gk_kernel *kernel, const float *const *constants) {
  const gb_program *p = kernel->program;
  gb_state *state = calloc(1, sizeof *state);
  if (!state) return NULL;
  state->kernel = kernel;
  state->width = gb_widths[gk_best_body()];
  const ptrdiff_t v = state->width->vector;
  ptrdiff_t all = 0;
  for (int k = 0; k < p->steps_count; ++k) {
    const gb_step *s = &p->steps[k];
    if (s->weights >= 0) all += gb_rounded(gb_packed_size(state->width, p, s), GB_ALIGN);
    if (s->bias >= 0) all += gb_rounded(p->buffers[s->out].channels + v, GB_ALIGN);
  }
  state->weights = calloc((size_t)p->steps_count, sizeof *state->weights);
  state->bias = calloc((size_t)p->steps_count, sizeof *state->bias);
  state->derived = calloc((size_t)p->steps_count, sizeof *state->derived);
  float *to = state->constants = gb_allocate(all * (ptrdiff_t)sizeof *to);
  if (!state->weights || !state->bias || !state->derived || !to) {
    gb_free(state);
    return NULL;
  }
  memset(to, 0, (size_t)all * sizeof *to);
  for (int k = 0; k < p->steps_count; ++k) {
    const gb_step *s = &p->steps[k];
    if (s->weights >= 0) {
      gb_pack(state->width, p, s, constants[s->weights], to);
      state->weights[k] = to;
      to += gb_rounded(gb_packed_size(state->width, p, s), GB_ALIGN);
    }
    if (s->bias >= 0) {
      memcpy(to, constants[s->bias], (size_t)p->buffers[s->out].channels * sizeof *to);
      state->bias[k] = to;
      to += gb_rounded(p->buffers[s->out].channels + v, GB_ALIGN);
    }
  }
  return state;
}

static ptrdiff_t gb_sized(const gb_step *s, int axis, ptrdiff_t size) {
  const ptrdiff_t reach = (ptrdiff_t)s->dilation[axis] * (s->kernel[axis] - 1) + 1;
  const ptrdiff_t room = size + s->pads[axis] + s->pads[axis + 2] - reach;
  if (room < 0 && (s->weights >= 0 || size <= 0)) return 0;
  return room / s->stride[axis] + 1; /* of a pool over a smaller image as onnxruntime has it: one window */
}

static ptrdiff_t gb_enlarged(const gb_step *s, int axis, ptrdiff_t size) {
  const ptrdiff_t made = (size - 1) * s->stride[axis] + s->kernel[axis] - s->pads[axis] - s->pads[axis + 2];
  return made > 0 ? made : 0;
}

/* How many rows each batch of a buffer has. */
static ptrdiff_t gb_rows_of(const gb_program *p, int buffer, const gb_size *sizes) {
  const gb_size size = sizes[p->buffers[buffer].storage];
  return size.height * size.width;
}

/* Whether the images of a buffer, if there is one, have the size of others; or with `is_pixel`, whether they are one pixel for
 * each of these. */
static int gb_fits(const gb_program *p, int buffer, const gb_size *sizes, gb_size others, int is_pixel) {
  if (buffer < 0) return 1;
  const gb_size size = sizes[p->buffers[buffer].storage];
  if (is_pixel) others.height = others.width = 1;
  return size.batch == others.batch && size.height == others.height && size.width == others.width;
}

/* What is wrong with the sizes of attention's operands, or NULL. `bias_sizes` are those of what is added to scores. */
static const char *gb_attention_fault(const gb_program *p, const gb_step *s, const gb_size *sizes, const int64_t *bias_sizes) {
  const ptrdiff_t batch = sizes[p->buffers[s->in].storage].batch, keys = gb_rows_of(p, s->in2, sizes);
  if (sizes[p->buffers[s->in2].storage].batch != batch || sizes[p->buffers[s->in3].storage].batch != batch)
    return "queries, keys and values have different batches";
  if (gb_rows_of(p, s->in3, sizes) != keys) return "there are not as many values as keys";
  if (!bias_sizes) return NULL;
  const int is_of_all = (bias_sizes[0] == 1 || bias_sizes[0] == batch) && (bias_sizes[1] == 1 || bias_sizes[1] == s->group);
  const int is_of_each = bias_sizes[2] == gb_rows_of(p, s->in, sizes) && bias_sizes[3] == keys;
  return is_of_all && is_of_each ? NULL : "what is added to scores does not fit them";
}

/* Rows, one for each image, or such images, one for each row. */
static gb_size gb_flattened(const gb_program *p, const gb_step *s, gb_size in) {
  return p->storages[p->buffers[s->out].storage].rows ? (gb_size){1, 1, in.batch} : (gb_size){in.width, 1, 1};
}

/* The sizes of the images in all storages; `input_sizes` has those of the inputs: [batch, channels, height, width] of images,
 * [batch, height, width, channels] of rows, or without batch and height; [batch, head, query, key] of what attention adds to
 * scores, [batch, row, 1] of which rows are cleared. What is wrong with them, or NULL. */
static const char *gb_sizes(const gk_kernel *kernel, const int64_t *const *input_sizes, gb_size *sizes) {
  const gb_program *p = kernel->program;
  for (int k = 0; k < p->storages_count; ++k) sizes[k].batch = -1;
  for (int k = 0; k < p->steps_count; ++k) {
    const gb_step *s = &p->steps[k];
    if (s->op == GB_STORE) continue;
    gb_size out, *known = &sizes[p->buffers[s->out].storage];
    if (s->op == GB_LOAD) {
      const int64_t *n = input_sizes[s->in];
      const int rank = kernel->ranks[s->in];
      if (n[s->flag ? rank - 1 : 1] != p->buffers[s->out].channels) return "an input has another number of channels than the kernel was made for";
      if (!s->flag) out = (gb_size){n[0], n[2], n[3]};
      else out = (gb_size){rank > 2 ? n[0] : 1, rank > 3 ? n[1] : 1, n[rank - 2]};
    } else {
      const gb_size in = sizes[p->buffers[s->in].storage];
      out = in;
      if (s->op == GB_GLOBAL_AVERAGE) out.height = out.width = 1;
      else if (s->op == GB_TRANSPOSED) out.height = gb_enlarged(s, 0, in.height), out.width = gb_enlarged(s, 1, in.width);
      else if (s->op == GB_FLATTEN) out = gb_flattened(p, s, in);
      else if (s->op == GB_RESIZE) out.height *= s->stride[0], out.width *= s->stride[1];
      else if (s->weights >= 0 || s->op == GB_MAX_POOL || s->op == GB_AVERAGE_POOL)
        out.height = gb_sized(s, 0, in.height), out.width = gb_sized(s, 1, in.width);
      const ptrdiff_t least = s->weights >= 0 && in.height > 0 && in.width > 0;
      if (out.height < least || out.width < least) return "a window is larger than its image";
    }
    if (s->op == GB_ATTENTION) {
      const char *fault = gb_attention_fault(p, s, sizes, s->tensor < 0 ? NULL : input_sizes[s->tensor]);
      if (fault) return fault;
    } else if (s->op == GB_CLEAR) {
      const int64_t *n = input_sizes[s->tensor];
      if ((n[0] != 1 && n[0] != out.batch) || (n[1] != 1 && n[1] != gb_rows_of(p, s->in, sizes)) || n[2] != 1)
        return "the condition of rows does not fit them";
    } else if (s->op == GB_ROTARY) {
      const ptrdiff_t rows = gb_rows_of(p, s->in, sizes);
      if (gb_rows_of(p, s->in2, sizes) < rows || gb_rows_of(p, s->in3, sizes) < rows)
        return "there are fewer cosines or sines than positions";
    } else if (!gb_fits(p, s->in2, sizes, out, s->op == GB_SCALE) || !gb_fits(p, s->in3, sizes, out, 1)) {
      return "two images that are added or multiplied have different sizes";
    }
    if (known->batch >= 0 && (known->batch != out.batch || known->height != out.height || known->width != out.width))
      return "images that are joined have different sizes";
    *known = out;
  }
  return NULL;
}

/* The shape of what a step stores. */
static void gb_stored(const gk_kernel *kernel, const gb_step *s, const gb_size *sizes, int64_t *shape) {
  const gb_buffer *b = &kernel->program->buffers[s->in];
  const gb_size size = sizes[b->storage];
  const int64_t image[] = {size.batch, b->channels, size.height, size.width};
  const int rank = kernel->ranks[kernel->inputs + s->out];
  const int64_t rows[] = {size.batch, rank > 3 ? size.height : size.width, rank > 3 ? size.width : b->channels, b->channels};
  memcpy(shape, s->flag ? rows + (rank == 2) : image, (size_t)rank * sizeof *shape);
}

/* How far blocks of so many floats lie apart: at a distance of whole pages all blocks of a pixel would take the same few
 * places of the nearest cache. */
static ptrdiff_t gb_apart(ptrdiff_t floats) {
  enum { LINE = 16, AMONG = 8, PLACE = 5 };
  const ptrdiff_t lines = (floats + LINE - 1) / LINE;
  return floats < GB_PAGE_FLOATS ? floats : (lines + (PLACE + AMONG - lines % AMONG) % AMONG) * LINE;
}

static gb_image gb_image_of(const gb_state *state, int number, const gb_size *sizes, char *const *slots) {
  const gb_program *p = state->kernel->program;
  if (number < 0) return (gb_image){0};
  const gb_buffer *b = &p->buffers[number];
  const gb_storage *storage = &p->storages[b->storage];
  gb_size size = sizes[b->storage];
  if (storage->rows) size = (gb_size){1, 1, size.batch * size.height * size.width};
  const ptrdiff_t v = b->planar ? 1 : state->width->vector, halo = storage->halo;
  gb_image image = {.batch = size.batch, .channels = b->channels, .blocks = (b->channels + v - 1) / v,
                    .height = size.height, .width = size.width, .pixel = v, .is_planar = b->planar};
  image.row = (size.width + 2 * halo) * v;
  image.plane = gb_apart((size.height + 2 * halo) * image.row);
  image.image = (storage->channels + v - 1) / v * image.plane;
  if (slots) image.data = (float *)(void *)slots[storage->slot] + b->first / v * image.plane + halo * image.row + halo * v;
  return image;
}
