/* One run. Threads of onnxruntime go through the steps together. Each thread begins with its own
 * share of a step's tasks. If possible, these compute the same pixels as the thread's tasks of the
 * step before. Then the thread takes tasks from the shares of other threads, so that a thread that
 * comes late, or never, delays nothing. A thread waits only for tasks that another thread is
 * running. */
typedef struct {
  const gb_state *state;
  gb_plan *plan;
} gb_work;

enum { GB_PATIENCE = 2000 }; /* polls (about 50 µs) before a thread yields its core */

#if defined(__linux__) || defined(__APPLE__)
extern int sched_yield(void); /* of sched.h */
static void gb_yield(void) { sched_yield(); }
#else
static void gb_yield(void) {}
#endif

static void gb_rest(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void gb_give_back(gb_state *state, gb_plan *plan) {
  gb_free_plan(__atomic_exchange_n((void **)&state->spare, plan, __ATOMIC_SEQ_CST));
}

/* Clears the border of some blocks of an image that a step makes: sets it to zeros, or to the zero
 * point of bytes. The border after one row and the border before the next row are adjacent, so they
 * are cleared as one piece. */
static void gb_clear_halo(const gb_state *state, const gb_call *c, float *first, ptrdiff_t planes) {
  const gb_image *image = &c->out;
  const ptrdiff_t side = c->halo * image->pixel, ends = c->halo * image->row + side;
  const int zero = image->bytes == 1 ? gb_grid_of(c, 1.0f, c->step->zero).zero : c->step->zero;
  const uint32_t zeros = (uint32_t)zero * 0x01010101;
  float filling;
  memcpy(&filling, &zeros, sizeof filling);
  for (float *p = first, *end = p + planes * image->plane; p < end; p += image->plane) {
    memset(p - ends, zero, (size_t)ends * sizeof *p);
    for (ptrdiff_t y = 1; y < image->height; ++y) {
      float *at = p + y * image->row - 2 * side;
      for (ptrdiff_t k = 0; k < 2 * side; ++k) at[k] = filling;
    }
    memset(p + image->height * image->row - 2 * side, zero, (size_t)ends * sizeof *p);
  }
}

/* Runs all steps of a chain for some blocks of channels of an image, and clears the borders of
 * their results. */
static void gb_do_blocks(const gb_work *w, const gb_call *c, ptrdiff_t image, ptrdiff_t block,
                         ptrdiff_t blocks, float *scratch) {
  for (const gb_call *d = c; d <= c + c->chained; ++d) {
    const ptrdiff_t of_image = d == c ? (d->out.blocks + 1) / 2 : d->out.blocks,
                    first = d == c ? block / 2 : block;
    const ptrdiff_t unit = (image * of_image + first) * d->rows,
                    count = (d == c ? 1 : blocks) * d->rows;
    if (d->halo)
      gb_clear_halo(w->state, d, d->out.data + image * d->out.image + block * d->out.plane, blocks);
    w->state->width->tasks[d->step->op](d, unit, unit + count, scratch);
  }
}

/* Runs one task. */
static void gb_do(const gb_work *w, const gb_call *c, ptrdiff_t number, float *scratch) {
  if (c->chained) {
    const ptrdiff_t pairs = (c->out.blocks + 1) / 2, all = c->out.batch * pairs,
                    end = all * (number + 1) / c->tasks;
    for (ptrdiff_t k = all * number / c->tasks; k < end; ++k) {
      const ptrdiff_t block = k % pairs * 2;
      gb_do_blocks(w, c, k / pairs, block, block + 1 < c->out.blocks ? 2 : 1, scratch);
    }
    return;
  }
  /* The first task clears borders while other tasks write the inside. No step reads the image
   * before all tasks are done. */
  if (c->halo && number == 0)
    for (ptrdiff_t n = 0; n < c->out.batch; ++n)
      gb_clear_halo(w->state, c, c->whole + n * c->out.image, c->out.image / c->out.plane);
  gb_task *task = c->is_strassen ? w->state->width->strassen : w->state->width->tasks[c->step->op];
  if (c->units) task(c, c->units * number / c->tasks, c->units * (number + 1) / c->tasks, scratch);
}

/* The work of one thread for one step. */
static void gb_go_through(const gb_work *w, int k, ptrdiff_t thread, float *scratch) {
  const gb_call *c = &w->plan->calls[k];
  const ptrdiff_t threads = w->plan->threads;
  gb_counter *ended = &w->plan->ended[k];
  for (ptrdiff_t turn = 0; turn < threads && *ended < c->tasks; ++turn) {
    const ptrdiff_t whose = (thread + turn) % threads,
                    first = (c->tasks * whose + threads - 1) / threads;
    const ptrdiff_t count = (c->tasks * (whose + 1) + threads - 1) / threads - first;
    gb_counter *begun = &w->plan->begun[whose * w->state->kernel->program->steps_count + k];
    for (ptrdiff_t number; *begun < count && (number = (*begun)++) < count; ++*ended)
      gb_do(w, c, first + number, scratch);
  }
  for (int looks = 0; *ended < c->tasks; ++looks) {
    if (looks < GB_PATIENCE) gb_rest();
    else gb_yield();
  }
}

/* The work of one thread for a whole run. */
static void gb_go(void *work, size_t thread) {
  const gb_work *w = work;
  float *scratch = (float *)(void *)(w->plan->scratch + thread * w->plan->scratch_size);
  for (int k = 0; k < w->state->kernel->program->steps_count; ++k) {
    if (w->plan->calls[k].keeps_chunk) ((gb_chunk *)(void *)scratch)->chunk = -1;
    gb_go_through(w, k, (ptrdiff_t)thread, scratch);
  }
}

/* Sets the tensor that a step reads in the tensor's own layout: a table, or an input [batch, part,
 * …]. If one of these two dimensions is 1, all batches or all parts read the same elements. */
static void gb_point_to(const gk_kernel *kernel, gb_call *c, const float *const *inputs,
                        const int64_t *const *input_sizes) {
  const int tensor = c->step->tensor, table = tensor - kernel->inputs;
  c->tensor = (float *)(uintptr_t)(table < 0 ? inputs[tensor] : kernel->program->tables[table]);
  if (table >= 0) return;
  const int64_t *n = input_sizes[tensor];
  ptrdiff_t each = 1;
  for (int axis = 2; axis < kernel->ranks[tensor]; ++axis) each *= n[axis];
  c->tensor_part = n[1] == 1 ? 0 : each;
  c->tensor_batch = n[0] == 1 ? 0 : n[1] * each;
}

/* Runs a program. `inputs` and `outputs` are the tensors by number, and `input_sizes` are the
 * shapes of the inputs. Returns NULL, or the error of `parallel`. Sets *failed if there is not
 * enough memory. */
static void *gb_run(gb_state *state, const gb_size *sizes, const int64_t *const *input_sizes,
                    const float *const *inputs, float *const *outputs, gk_parallel *parallel,
                    void *context, int *failed) {
  gb_plan *plan = gb_plan_of(state, sizes);
  if (!plan) {
    *failed = 1;
    return NULL;
  }
  const int steps = state->kernel->program->steps_count;
  /* also clears the counters `begun`, which come next in memory */
  memset((void *)plan->ended, 0, (size_t)(steps * (1 + plan->threads)) * sizeof(gb_counter));
  for (int k = 0; k < steps; ++k) {
    gb_call *c = &plan->calls[k];
    const gb_step *s = c->step;
    if (c->read >= 0) c->in.data = (float *)(uintptr_t)inputs[c->read];
    if (c->read2 >= 0) c->in2.data = (float *)(uintptr_t)inputs[c->read2];
    if (c->read3 >= 0) c->in3.data = (float *)(uintptr_t)inputs[c->read3];
    if (s->op == GB_LOAD) c->tensor = (float *)(uintptr_t)inputs[s->in];
    else if (s->op == GB_STORE) c->tensor = outputs[s->out];
    else if (s->tensor >= 0) gb_point_to(state->kernel, c, inputs, input_sizes);
  }
  void *error = NULL;
  gb_work work = {state, plan};
  if (plan->threads > 1) error = parallel(context, gb_go, (size_t)plan->threads, &work);
  else gb_go(&work, 0);
  gb_give_back(state, plan);
  return error;
}
