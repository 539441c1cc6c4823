/* One run: each step is cut into tasks, which the threads of onnxruntime do. */
enum {
  GB_TASK_NS = 15000,   /* about what a task takes: much more than to begin it */
  GB_STRIP = 256 << 10, /* bytes of an image that are read for all blocks before the next ones are */
};

/* Memory of a run: slots, and for each thread what a task needs. */
typedef struct {
  size_t size;
  char *slots, *scratch;
} gb_memory;

typedef struct {
  const gb_call *call;
  gb_task *task;
  ptrdiff_t tasks;
  char *scratch;
  _Atomic uint64_t busy; /* which parts of the scratch memory are in use */
} gb_work;

static void gb_do(void *work, size_t number) {
  gb_work *w = work;
  const gb_call *c = w->call;
  const ptrdiff_t from = c->units * (ptrdiff_t)number / w->tasks, to = c->units * (ptrdiff_t)(number + 1) / w->tasks;
  if (!c->scratch) {
    w->task(c, from, to, NULL);
    return;
  }
  uint64_t busy = w->busy, mine; /* there are as many parts as tasks, so one is free */
  do mine = ~busy & (busy + 1);
  while (!__atomic_compare_exchange_n((uint64_t *)&w->busy, &busy, busy | mine, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  w->task(c, from, to, (float *)(void *)(w->scratch + __builtin_ctzll(mine) * c->scratch));
  w->busy &= ~mine;
}

/* Whether pixels lie without a gap from row to row. */
static int gb_is_flat(const gb_image *image) { return !image->data || image->row * image->height == image->plane; }

/* Asked once: the system takes as long to answer as a step may. */
static ptrdiff_t gb_threads(void) {
  static _Atomic long threads;
  if (!threads) {
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    threads = n < 1 ? 1 : n > 16 ? 16 : n;
  }
  return threads;
}

/* Winograd's way: some tiles are transformed at once; where these are fewer than threads, each does some of the blocks. */
static void gb_divide_winograd(const gb_width *width, gb_call *c) {
  const ptrdiff_t most = width->tiles_at_once(c->in.blocks * width->vector), pairs = (c->out.blocks + 1) / 2;
  const ptrdiff_t tiles = c->out.batch * ((c->out.height + 3) / 4) * ((c->out.width + 3) / 4);
  c->part = most;
  c->rows = (tiles + most - 1) / most;
  c->strip = c->rows && c->rows < gb_threads() ? (gb_threads() + c->rows - 1) / c->rows : 1;
  if (c->strip > pairs) c->strip = pairs;
  c->units = c->rows * c->strip;
  c->scratch = 36 * most * (c->in.blocks + 2) * width->vector * (ptrdiff_t)sizeof(float);
}

/* Whether a step does to each pixel what it does, whichever row that is in, and rows have no gaps between them. */
static int gb_is_by_pixel(const gb_call *c) {
  const gb_step *s = c->step;
  const int is_point = s->kernel[0] * s->kernel[1] == 1 && s->stride[0] + s->stride[1] == 2 && s->pads[0] + s->pads[1] == 0;
  const int is_elementwise = s->op >= GB_ADD && s->op != GB_RESIZE;
  return ((s->op == GB_CONV && is_point) || is_elementwise) && gb_is_flat(&c->in) && gb_is_flat(&c->out) &&
         (s->op == GB_SCALE || gb_is_flat(&c->in2));
}

/* How a step is cut into units. */
static void gb_divide(const gb_width *width, gb_call *c) {
  const gb_step *s = c->step;
  const int is_convolution = s->op == GB_CONV || s->op == GB_FIRST || s->op == GB_PRODUCT;
  const gb_image *shape = s->op == GB_STORE || s->op == GB_TRANSPOSED ? &c->in : &c->out;
  ptrdiff_t blocks = shape->blocks;
  if (is_convolution || s->op == GB_TRANSPOSED) blocks = (c->out.blocks / s->group + 1) / 2 * s->group;
  c->scratch = 0;
  if (s->op == GB_WINOGRAD) {
    gb_divide_winograd(width, c);
    return;
  }
  c->is_flat = gb_is_by_pixel(c);
  c->part = c->is_flat ? 4 * width->tile : shape->width;
  c->rows = c->is_flat ? (shape->height * shape->width + c->part - 1) / c->part : shape->height;
  if (s->op == GB_GLOBAL_AVERAGE) c->rows = 1;
  c->strip = c->rows;
  if (is_convolution && c->rows) { /* what a strip reads stays in the cache of a core for all blocks */
    const ptrdiff_t read = c->in.channels / s->group * c->part * s->stride[1] * (s->kernel[0] > 1 ? s->stride[0] : 1);
    const ptrdiff_t fit = GB_STRIP / (read * (ptrdiff_t)sizeof(float) + 1) + 1;
    if (fit < c->rows) c->strip = fit;
  }
  c->units = shape->batch * blocks * c->rows;
}

/* About how many nanoseconds a step takes. */
static double gb_nanoseconds(const gb_width *width, const gb_call *c) {
  const gb_step *s = c->step;
  const double made = (double)c->out.batch * (double)c->out.height * (double)c->out.width * (double)c->out.channels;
  const double taps = (double)s->kernel[0] * s->kernel[1], speed = 4.0 * width->vector; /* products in a nanosecond */
  const double in = (double)c->in.channels / s->group;
  switch (s->op) {
    case GB_WINOGRAD: return made * 4.0 * in / speed;
    case GB_CONV: case GB_FIRST: case GB_PRODUCT: return made * taps * in / speed;
    case GB_TRANSPOSED: return made * in / speed;
    case GB_DEPTHWISE: return made * taps / (speed / 2);
    case GB_MAX_POOL: case GB_AVERAGE_POOL: return made * taps / 8.0;
    case GB_GLOBAL_AVERAGE: return (double)c->in.image * (double)c->in.batch / 8.0;
    default: return (double)c->out.image * (double)c->out.batch / 4.0;
  }
}

/* Memory for the slots of a run and the tasks of any of its steps; that of the last run if it is large enough. */
static gb_memory *gb_take(gb_state *state, const size_t slots, const size_t scratch) {
  const size_t size = sizeof(gb_memory) + GB_ALIGN + slots + scratch;
  gb_memory *memory = __atomic_exchange_n((void **)&state->spare, NULL, __ATOMIC_SEQ_CST);
  if (!memory || memory->size < size) {
    free(memory);
    memory = gb_allocate((ptrdiff_t)size);
    if (!memory) return NULL;
    memory->size = size;
  }
  memory->slots = (char *)memory + gb_rounded(sizeof *memory, GB_ALIGN);
  memory->scratch = memory->slots + slots;
  return memory;
}

static void gb_give_back(gb_state *state, gb_memory *memory) {
  free(__atomic_exchange_n((void **)&state->spare, memory, __ATOMIC_SEQ_CST));
}

/* Weights as they are in the model. */
static const float *gb_weights(const gk_kernel *kernel, const gb_step *s, const float *const *inputs) {
  return s->weights < kernel->inputs ? inputs[s->weights] : kernel->program->tables[s->weights - kernel->inputs];
}

/* Fills in what a step works on. */
static gb_call gb_call_of(const gb_state *state, int k, const gb_size *sizes, char *const *slots) {
  const gb_step *s = &state->kernel->program->steps[k];
  gb_call c = {.step = s, .weights = state->weights[k], .bias = state->bias[k]};
  if (s->op != GB_LOAD) c.in = gb_image_of(state, s->in, sizes, slots);
  if (s->op != GB_STORE) c.out = gb_image_of(state, s->out, sizes, slots);
  else c.out = c.in;
  c.in2 = gb_image_of(state, s->in2, sizes, slots);
  for (ptrdiff_t v = 0, width = state->width->vector; v < width; ++v)
    c.lanes[v] = c.out.channels % width == 0 || v < c.out.channels % width ? -1 : 0;
  return c;
}

/* Runs a program. `inputs` and `outputs` are the tensors by their numbers. NULL, what `parallel`
 * says, or *failed where there is no memory. */
static void *gb_run(gb_state *state, const gb_size *sizes, const float *const *inputs, float *const *outputs,
                    gk_parallel *parallel, void *context, int *failed) {
  const gb_program *p = state->kernel->program;
  size_t bytes[p->slots + 1], all = 0, scratch = 0;
  char *slots[p->slots + 1], is_made[p->storages_count + 1];
  memset(bytes, 0, sizeof bytes);
  memset(is_made, 0, sizeof is_made);
  for (int b = 0; b < p->buffers_count; ++b) {
    const gb_image image = gb_image_of(state, b, sizes, NULL);
    const size_t size = (size_t)gb_rounded(image.batch * image.image * (ptrdiff_t)sizeof(float), GB_ALIGN);
    const int slot = p->storages[p->buffers[b].storage].slot;
    if (size > bytes[slot]) bytes[slot] = size;
  }
  for (int k = 0; k < p->slots; ++k) all += bytes[k] + GB_ALIGN;
  for (int k = 0; k < p->steps_count; ++k) {
    if (p->steps[k].op != GB_WINOGRAD) continue;
    gb_call c = gb_call_of(state, k, sizes, NULL);
    gb_divide(state->width, &c);
    if ((size_t)c.scratch > scratch) scratch = (size_t)c.scratch;
  }
  gb_memory *memory = gb_take(state, all, scratch * GB_MOST_TASKS);
  if (!memory) {
    *failed = 1;
    return NULL;
  }
  char *at = memory->slots;
  for (int k = 0; k < p->slots; ++k, at += bytes[k - 1] + GB_ALIGN) slots[k] = at;
  void *error = NULL;
  for (int k = 0; k < p->steps_count && !error; ++k) {
    const gb_step *s = &p->steps[k];
    gb_call c = gb_call_of(state, k, sizes, slots);
    if (s->op == GB_LOAD) c.tensor = (float *)(uintptr_t)inputs[s->in];
    else if (s->op == GB_STORE) c.tensor = outputs[s->out];
    else if (s->op == GB_WINOGRAD) c.tensor = (float *)(uintptr_t)gb_weights(state->kernel, s, inputs);
    if (s->op != GB_STORE) {
      const int number = p->buffers[s->out].storage;
      const gb_storage *storage = &p->storages[number];
      if (storage->halo && !is_made[number]) {
        gb_image whole = c.out;
        whole.data -= p->buffers[s->out].first / (c.out.is_planar ? 1 : state->width->vector) * c.out.plane;
        gb_clear_halo(state, whole, storage->halo);
      }
      is_made[number] = 1;
    }
    gb_divide(state->width, &c);
    const double ns = gb_nanoseconds(state->width, &c);
    const ptrdiff_t wanted = ns < GB_TASK_NS * 2 ? 1 : ns > 1.0 * GB_TASK_NS * GB_MOST_TASKS ? GB_MOST_TASKS : ns / GB_TASK_NS;
    const ptrdiff_t most = 4 * gb_threads() < wanted ? 4 * gb_threads() : wanted;
    gb_work work = {&c, state->width->tasks[s->op], most < c.units ? most : c.units, memory->scratch, 0};
    if (work.tasks > 1) error = parallel(context, gb_do, (size_t)work.tasks, &work);
    else if (work.tasks) gb_do(&work, 0);
  }
  gb_give_back(state, memory);
  return error;
}
