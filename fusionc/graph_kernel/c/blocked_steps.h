/* One run: the threads of onnxruntime do the tasks of one step after the other. */
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

static void gb_give_back(gb_state *state, gb_plan *plan) {
  gb_free_plan(__atomic_exchange_n((void **)&state->spare, plan, __ATOMIC_SEQ_CST));
}

/* Weights as they are in the model. */
static const float *gb_weights(const gk_kernel *kernel, const gb_step *s, const float *const *inputs) {
  return s->weights < kernel->inputs ? inputs[s->weights] : kernel->program->tables[s->weights - kernel->inputs];
}

/* Zeros around the images of the storage that a step makes. What is behind one row and in front of the next one is one
 * piece. */
static void gb_clear_halo(const gb_state *state, const gb_call *c) {
  const gb_image *image = &c->out;
  const ptrdiff_t side = c->halo * (image->is_planar ? 1 : state->width->vector), ends = c->halo * image->row + side;
  for (ptrdiff_t n = 0; n < image->batch; ++n)
    for (float *p = c->whole + n * image->image, *end = p + image->image; p < end; p += image->plane) {
      memset(p - ends, 0, (size_t)ends * sizeof *p);
      for (ptrdiff_t y = 1; y < image->height; ++y) {
        float *at = p + y * image->row - 2 * side;
        for (ptrdiff_t k = 0; k < 2 * side; ++k) at[k] = 0.0f;
      }
      memset(p + image->height * image->row - 2 * side, 0, (size_t)ends * sizeof *p);
    }
}

/* Runs a program. `inputs` and `outputs` are the tensors by their numbers. NULL, what `parallel`
 * says, or *failed where there is no memory. */
static void *gb_run(gb_state *state, const gb_size *sizes, const float *const *inputs, float *const *outputs,
                    gk_parallel *parallel, void *context, int *failed) {
  gb_plan *plan = gb_take(state, sizes);
  if (!plan) {
    *failed = 1;
    return NULL;
  }
  void *error = NULL;
  for (int k = 0; k < state->kernel->program->steps_count && !error; ++k) {
    gb_call *c = &plan->calls[k];
    const gb_step *s = c->step;
    if (s->op == GB_LOAD) c->tensor = (float *)(uintptr_t)inputs[s->in];
    else if (s->op == GB_STORE) c->tensor = outputs[s->out];
    else if (s->op == GB_WINOGRAD) c->tensor = (float *)(uintptr_t)gb_weights(state->kernel, s, inputs);
    if (c->halo) gb_clear_halo(state, c);
    gb_work work = {c, state->width->tasks[s->op], c->tasks, plan->scratch, 0};
    if (work.tasks > 1) error = parallel(context, gb_do, (size_t)work.tasks, &work);
    else if (work.tasks) gb_do(&work, 0);
  }
  gb_give_back(state, plan);
  return error;
}
