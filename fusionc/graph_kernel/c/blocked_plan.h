/* The plan of a run: it divides each step into units, distributes the units over tasks for threads,
 * and gives images their memory. */

static void gb_divide(const gb_width *width, gb_call *c) {
  const gb_kind *kind = &gb_kinds[c->step->op];
  if (kind->divide) kind->divide(width, c);
  else gb_divide_into(width, c, c->out.blocks, 0);
}

static double gb_nanoseconds(const gb_width *width, const gb_call *c) {
  const gb_kind *kind = &gb_kinds[c->step->op];
  if (kind->nanoseconds) return kind->nanoseconds(width, c);
  return kind->products ? kind->products(c) / gb_speed(width)
                        : (double)c->out.image * (double)c->out.batch / 4.0;
}

static ptrdiff_t gb_tasks(const gb_width *width, const gb_call *c) {
  const gb_kind *kind = &gb_kinds[c->step->op];
  const ptrdiff_t most = gb_most_tasks(c->units);
  return gb_tasks_of(gb_nanoseconds(width, c), kind->most_tasks ? kind->most_tasks(c, most) : most);
}

/* Whether a thread may need scratch memory for a step. Most products need none. */
static int gb_may_need_scratch(const gb_width *width, const gb_step *s) {
  return width->scratches[s->op] &&
         (!gb_kinds[s->op].is_matrix || s->in3 >= 0 || gb_may_be_strassen(s));
}

/* The bytes of scratch memory that a thread needs for a step. */
static ptrdiff_t gb_scratch(const gb_width *width, const gb_call *c) {
  const ptrdiff_t floats = c->is_strassen ? width->strassen_floats(c->in.blocks * width->vector)
                                          : width->scratches[c->step->op](c);
  return floats * (ptrdiff_t)sizeof(float);
}

/* Whether a step and the steps of its chain run together, for one pair of blocks of channels after
 * another. They do if their operands and results for a pair stay in the cache of a core, and if
 * there are enough pairs for all threads. */
static int gb_is_chained(const gb_program *p, const gb_call *c) {
  /* most bytes of operands, most bytes of results, least number of pairs for each thread */
  enum { GB_READ_OF = 1 << 20, GB_MADE_OF = 2 << 20, GB_PAIRS = 2 };
  if (!c->step->chained || c->is_strassen) return 0;
  const ptrdiff_t read = c->in.image * (ptrdiff_t)sizeof(float);
  ptrdiff_t made = 0;
  for (const gb_call *d = c; d <= c + c->step->chained; ++d) {
    const gb_buffer *out = &p->buffers[d->step->out];
    if (!d->units ||
        (p->storages[out->storage].halo && p->storages[out->storage].channels != out->channels))
      return 0;
    made += 2 * d->out.plane * (ptrdiff_t)sizeof(float);
  }
  const ptrdiff_t pairs = c->out.batch * (c->out.blocks / 2), threads = gb_threads();
  /* many pairs for each thread, or the same number for each */
  const int is_even =
      pairs >= 2 * GB_PAIRS * threads || (pairs % threads == 0 && c->out.blocks % 2 == 0);
  return read <= GB_READ_OF && made <= GB_MADE_OF && pairs >= GB_PAIRS * threads && is_even;
}

/* Makes chains of steps. */
static void gb_chain(const gb_state *state, gb_plan *plan) {
  const gb_program *p = state->kernel->program;
  for (int k = 0; k < p->steps_count; k += 1 + plan->calls[k].chained) {
    gb_call *c = &plan->calls[k];
    double ns = 0.0;
    if (!gb_is_chained(p, c)) continue;
    c->chained = c->step->chained;
    for (gb_call *d = c; d <= c + c->chained; ++d) {
      ns += gb_nanoseconds(state->width, d);
      d->strip = d->rows; /* keeps the units of a block together */
      d->tasks = 0;
    }
    c->tasks = gb_tasks_of(ns, gb_most_tasks(c->out.batch * ((c->out.blocks + 1) / 2)));
  }
}

/* The element type of the tensor that a step loads, stores, or reads in addition to images. 0 if it
 * has no such tensor. */
static int gb_tensor_type(const gk_kernel *kernel, const gb_step *s) {
  if (s->op == GB_STORE) return kernel->types[kernel->inputs + s->out];
  const int tensor = s->op == GB_LOAD ? s->in : s->tensor;
  return tensor >= 0 && tensor < kernel->inputs ? kernel->types[tensor] : 0;
}

/* Makes the call of step k: the step with its operands and its result. */
static gb_call gb_call_of(const gb_state *state, int k, const gb_size *sizes, char *const *slots) {
  const gb_step *s = &state->kernel->program->steps[k];
  gb_call c = {.step = s,
               .read = -1,
               .read2 = -1,
               .read3 = -1,
               .has_tiles = (gb_instructions() & GB_HAS_TILES) != 0,
               .weights = state->weights[k],
               .bias = state->bias[k]};
  c.is_float16 = gb_tensor_type(state->kernel, s) == GB_FLOAT16;
  if (s->op != GB_LOAD) c.in = gb_image_of(state, s->in, sizes, slots);
  if (s->op != GB_STORE) c.out = gb_image_of(state, s->out, sizes, slots);
  else c.out = c.in;
  c.in2 = gb_image_of(state, s->in2, sizes, slots);
  c.in3 = gb_image_of(state, s->in3, sizes, slots);
  if (s->op != GB_LOAD) c.queries = gb_rows_of(state->kernel->program, s->in, sizes);
  if (s->in2 >= 0) c.keys = gb_rows_of(state->kernel->program, s->in2, sizes);
  for (ptrdiff_t v = 0, width = state->width->vector; v < width; ++v)
    c.lanes[v] = c.out.channels % width == 0 || v < c.out.channels % width ? -1 : 0;
  gb_divide(state->width, &c);
  c.tasks = gb_tasks(state->width, &c);
  return c;
}

/* Fills in the steps of a plan. The plan must already have memory for them. */
static void gb_fill(const gb_state *state, gb_plan *plan, char *const *slots) {
  const gb_program *p = state->kernel->program;
  char is_made[p->storages_count + 1];
  memset(is_made, 0, sizeof is_made);
  for (int k = 0; k < p->steps_count; ++k) {
    const gb_step *s = &p->steps[k];
    gb_call *c = &plan->calls[k];
    *c = gb_call_of(state, k, plan->sizes, slots);
    if (s->op == GB_STORE || is_made[p->buffers[s->out].storage]) continue;
    const int number = p->buffers[s->out].storage;
    is_made[number] = 1;
    c->halo = p->storages[number].halo;
    if (c->halo && !c->tasks) c->tasks = 1;
    c->whole = c->out.data - p->buffers[s->out].first / c->out.own * c->out.plane;
  }
}

/* The plan for images of these sizes. If the last run had the same sizes, its plan is used again.
 * NULL if there is not enough memory. */
static gb_plan *gb_plan_of(gb_state *state, const gb_size *sizes) {
  const gb_program *p = state->kernel->program;
  const size_t calls = gb_rounded(p->steps_count * (ptrdiff_t)sizeof(gb_call), GB_ALIGN);
  const size_t counters = (size_t)(p->steps_count * (1 + gb_threads())) * sizeof(gb_counter);
  const size_t of_sizes = (size_t)p->storages_count * sizeof *sizes;
  gb_plan *plan = __atomic_exchange_n((void **)&state->spare, NULL, __ATOMIC_SEQ_CST);
  if (plan && !memcmp(plan->sizes, sizes, of_sizes)) return plan;
  if (!plan) {
    if (!(plan = calloc(1, sizeof *plan + GB_ALIGN + calls + counters + of_sizes))) return NULL;
    plan->calls = (gb_call *)gb_rounded((ptrdiff_t)(plan + 1), GB_ALIGN);
    plan->ended = (gb_counter *)((char *)plan->calls + calls);
    plan->begun = plan->ended + p->steps_count;
    plan->sizes = (gb_size *)((char *)plan->ended + counters);
  }
  memcpy(plan->sizes, sizes, of_sizes);
  size_t at[p->slots + 1], all = 0, scratch = 0;
  memset(at, 0, sizeof at);
  for (int b = 0; b < p->buffers_count; ++b) {
    const gb_image image = gb_image_of(state, b, sizes, NULL);
    const size_t size =
        (size_t)gb_rounded(image.batch * image.image * (ptrdiff_t)sizeof(float), GB_ALIGN);
    const int slot = p->storages[p->buffers[b].storage].slot;
    if (size > at[slot]) at[slot] = size;
  }
  for (int k = 0; k < p->steps_count; ++k) {
    /* Most steps are skipped here: dividing all of them twice would take as long as a short run. */
    if (!gb_may_need_scratch(state->width, &p->steps[k])) continue;
    const gb_call c = gb_call_of(state, k, sizes, NULL);
    const size_t needed = (size_t)gb_scratch(state->width, &c);
    if (needed > scratch) scratch = needed;
  }
  for (int k = 0; k < p->slots; ++k) all += at[k] + GB_ALIGN;
  all += GB_BEYOND;
  scratch = (size_t)gb_rounded((ptrdiff_t)scratch, GB_ALIGN);
  const size_t size = all + scratch * (size_t)gb_threads();
  if (plan->size < size) {
    free(plan->memory);
    plan->size = size;
    if (!(plan->memory = gb_allocate((ptrdiff_t)plan->size))) {
      gb_free_plan(plan);
      return NULL;
    }
  }
  char *slots[p->slots + 1], *next = plan->memory;
  for (int k = 0; k < p->slots; ++k) {
    slots[k] = next;
    next += at[k] + GB_ALIGN;
  }
  plan->scratch = next + GB_BEYOND;
  plan->scratch_size = scratch;
  gb_fill(state, plan, slots);
  gb_chain(state, plan);
  for (int k = 0; k < p->steps_count; ++k) {
    gb_call *c = &plan->calls[k];
    if (c->is_strassen) gb_give_sums(state, k, c);
    if (gb_kinds[c->step->op].derive) gb_kinds[c->step->op].derive(state, k, c);
    gb_range_directly(state, plan, k);
    gb_store_directly(state, plan, k);
    gb_read_directly(state, plan, k);
  }
  plan->threads = 1;
  for (int k = 0; k < p->steps_count; ++k)
    if (plan->calls[k].tasks > plan->threads) plan->threads = plan->calls[k].tasks;
  if (plan->threads > gb_threads()) plan->threads = gb_threads();
  return plan;
}
