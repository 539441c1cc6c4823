/* How the steps of a program run on images of some sizes: cut into units, in memory that they share. */
enum {
  GB_TASK_NS = 4000,    /* about what a task takes at least: much more than to begin it */
  GB_TASKS = 24,        /* for each thread at most: with 8 of them the last one is waited for, more than these gain nothing */
  GB_STRIP = 512 << 10, /* bytes of an image that are read for all blocks before the next ones are */
};

/* Whether pixels lie without a gap from row to row. */
static int gb_is_flat(const gb_image *image) { return !image->data || image->row == image->width * image->pixel; }

static int gb_may_need_scratch(const gb_step *s) {
  const int is_third_read = s->in3 >= 0 && s->op != GB_ROTARY; /* attention, or weights that are multiplied */
  return s->op == GB_WINOGRAD || is_third_read || gb_may_be_strassen(s);
}

/* Bytes of memory that a thread needs for itself. */
static ptrdiff_t gb_scratch(const gb_width *width, const gb_call *c) {
  const ptrdiff_t channels = c->in.blocks * width->vector;
  if (c->is_strassen) return width->strassen_floats(channels) * (ptrdiff_t)sizeof(float);
  if (c->step->op == GB_ATTENTION) {
    const ptrdiff_t of_head = (c->in.channels + c->out.channels) / c->step->group;
    return width->attention_floats(c->keys, of_head, c->part) * (ptrdiff_t)sizeof(float);
  }
  if (c->step->in3 >= 0) return channels * 2 * width->vector * (ptrdiff_t)sizeof(float);
  if (c->step->op != GB_WINOGRAD) return 0; /* see gb_may_need_scratch */
  return width->winograd_floats(channels, c->step->flag) * (ptrdiff_t)sizeof(float);
}

/* Whether a step does to each pixel what it does, whichever row that is in, and rows have no gaps between them. A
 * convolution may make some that have: where they are so short that tiles are not full, that they are moved costs less. */
static int gb_is_by_pixel(const gb_width *width, const gb_call *c) {
  const gb_step *s = c->step;
  const int is_point = s->kernel[0] * s->kernel[1] == 1 && s->stride[0] + s->stride[1] == 2 && s->pads[0] + s->pads[1] == 0;
  const int is_short = c->out.width < 2 * width->tile && c->out.width % width->tile;
  const int is_elementwise = s->op >= GB_ADD && s->op != GB_RESIZE && s->op != GB_GROUPED;
  return (((s->op == GB_CONV || s->op == GB_GROUPED) && is_point) || is_elementwise) && gb_is_flat(&c->in) &&
         (gb_is_flat(&c->out) || (s->op == GB_CONV && is_short)) && (s->op == GB_SCALE || gb_is_flat(&c->in2));
}

/* Parts of all pixels, each of about eight tiles, nine at most (GB_PART). Where there are few parts, there are about as many
 * for each thread. */
static void gb_divide_pixels(const gb_width *width, gb_call *c, ptrdiff_t pixels, int is_in_tiles) {
  enum { GB_FEW = 4 }; /* parts for each thread */
  const ptrdiff_t most = 8 * width->tile, threads = gb_threads(), left = pixels % most;
  ptrdiff_t parts = pixels / most + (left >= width->tile / 2 || pixels < most); /* a few pixels alone are no part */
  if (parts < GB_FEW * threads && pixels >= threads * width->tile) parts = gb_rounded(parts, threads);
  c->part = gb_rounded((pixels + parts - 1) / parts, is_in_tiles ? width->tile : 1); /* whole ones take least for a pixel */
  c->rows = c->part ? (pixels + c->part - 1) / c->part : 0;
}

/* How many parts each block has before any has the next: of one image as many as each thread has, so that it finds in its own
 * cache what it has made in the step before. Of convolutions about so many that what is read of them stays in that cache, but
 * a multiple for all threads; where there are more weights for each channel in than pixels, each thread reads some of the
 * weights instead, and all pixels. */
static ptrdiff_t gb_strip_of(const gb_call *c, int is_convolution) {
  const gb_step *s = c->step;
  const ptrdiff_t threads = gb_threads(), of_each = c->rows < threads ? c->rows : (c->rows + threads - 1) / threads;
  if (!is_convolution || !c->rows) return of_each;
  const ptrdiff_t read = c->in.channels / s->group * c->part * s->stride[1] * (s->kernel[0] > 1 ? s->stride[0] : 1);
  const ptrdiff_t fit = GB_STRIP / (read * (ptrdiff_t)sizeof(float) + 1) + 1, most = fit < c->rows ? fit : c->rows;
  const ptrdiff_t of_channel = (ptrdiff_t)s->kernel[0] * s->kernel[1] * c->out.channels / s->group; /* weights */
  if (c->rows < threads || of_channel >= c->in.height * c->in.width) return most;
  const ptrdiff_t strips = ((c->rows + most - 1) / most + threads / 2) / threads * threads; /* about, of all threads */
  return strips > threads ? (c->rows + strips - 1) / strips : of_each;
}

/* How a step is cut into units. */
static void gb_divide(const gb_width *width, gb_call *c) {
  const gb_step *s = c->step;
  const int is_grouped = s->op == GB_GROUPED && !gb_is_by_lane(s, c->in.channels, c->out.channels, width->vector);
  const int is_convolution = s->op == GB_CONV || s->op == GB_FIRST || s->op == GB_PRODUCT || is_grouped;
  const gb_image *shape = s->op == GB_STORE ? &c->in : &c->out;
  ptrdiff_t blocks = shape->blocks;
  if (s->op == GB_LAYER_NORM || s->op == GB_RMS_NORM) blocks = 1;
  if (is_convolution || s->op == GB_TRANSPOSED) blocks = (c->out.blocks / s->group + 1) / 2 * s->group;
  if (s->op == GB_WINOGRAD) {
    gb_divide_winograd(width, c);
    return;
  }
  if (s->op == GB_ATTENTION) {
    gb_divide_attention(width, c);
    return;
  }
  if (s->op == GB_FLATTEN) {
    c->units = c->out.blocks;
    return;
  }
  c->is_flat = gb_is_by_pixel(width, c);
  c->is_scattered = c->is_flat && !gb_is_flat(&c->out);
  if (gb_is_strassen(width, c)) {
    gb_divide_strassen(width, c);
    return;
  }
  c->part = shape->width;
  c->rows = shape->height;
  if (c->is_flat) gb_divide_pixels(width, c, shape->height * shape->width, is_convolution);
  if (s->op == GB_GLOBAL_AVERAGE) c->rows = 1;
  c->strip = gb_strip_of(c, is_convolution);
  c->units = shape->batch * blocks * c->rows;
}

/* About how many nanoseconds a step takes on one thread. Weights that are read for few pixels come from memory. */
static double gb_nanoseconds(const gb_width *width, const gb_call *c) {
  enum { GB_READ = 5, GB_WRITTEN = 8 }; /* floats in a nanosecond */
  const gb_step *s = c->step;
  const double made = (double)c->out.batch * (double)c->out.height * (double)c->out.width * (double)c->out.channels;
  const double taps = (double)s->kernel[0] * s->kernel[1], speed = 4.0 * width->vector; /* products in a nanosecond */
  const double in = (double)c->in.channels / s->group;
  switch (s->op) {
    case GB_WINOGRAD: return made * (double)(s->flag * s->flag) / (GB_PIXELS_OF(s->flag) * GB_PIXELS_OF(s->flag)) * in / speed;
    case GB_CONV: case GB_FIRST: case GB_PRODUCT:
      return made * taps * in / speed + taps * in * (double)c->out.channels / GB_READ;
    case GB_GROUPED: return made * taps * in / (speed / 2);
    case GB_ATTENTION: return made * (double)c->keys * (1.0 + in / ((double)c->out.channels / s->group)) / speed;
    case GB_TRANSPOSED: return made * taps / (s->stride[0] * s->stride[1]) * in / speed;
    case GB_DEPTHWISE: return made * taps / (speed / 2) + made / GB_WRITTEN;
    case GB_MAX_POOL: case GB_AVERAGE_POOL: return made * (0.6 + taps / 8.0); /* pixels come from far away, however few taps */
    case GB_GLOBAL_AVERAGE: return (double)c->in.image * (double)c->in.batch / 8.0;
    default: return (double)c->out.image * (double)c->out.batch / 4.0;
  }
}

/* Tasks of whole heads, at most so many: each task packs keys and values of its heads. Where threads would have unlike
 * numbers of heads, they share some. */
static ptrdiff_t gb_tasks_of_heads(ptrdiff_t heads, ptrdiff_t most) {
  ptrdiff_t tasks = most < heads ? most : heads;
  while (tasks > 0 && heads % tasks) --tasks;
  return tasks >= gb_threads() && tasks % gb_threads() == 0 ? tasks : most;
}

/* How many tasks a step is cut into: none takes much less than GB_TASK_NS. */
static ptrdiff_t gb_tasks_of(double ns, ptrdiff_t most) {
  return ns > (double)GB_TASK_NS * (double)most ? most : ns > 2.0 * GB_TASK_NS ? (ptrdiff_t)(ns / GB_TASK_NS) : most > 0;
}

static ptrdiff_t gb_most_tasks(ptrdiff_t units) {
  return GB_TASKS * gb_threads() < units ? GB_TASKS * gb_threads() : units;
}

static ptrdiff_t gb_tasks(const gb_width *width, const gb_call *c) {
  const ptrdiff_t most = gb_most_tasks(c->units);
  if (c->step->op != GB_ATTENTION || !c->rows) return gb_tasks_of(gb_nanoseconds(width, c), most);
  const ptrdiff_t heads = c->units / c->rows * c->in2.channels / c->in.channels; /* of keys: those of queries may be more */
  return gb_tasks_of(gb_nanoseconds(width, c), gb_tasks_of_heads(heads, most));
}

/* Whether a step and those behind it that may go with it do so: where all that they make of a pair of blocks stays in the
 * cache of a core, and so does what they read of all blocks, while there are pairs enough for all threads. */
static int gb_is_chained(const gb_program *p, const gb_call *c) {
  enum { GB_READ_OF = 1 << 20, GB_MADE_OF = 2 << 20, GB_PAIRS = 2 }; /* bytes; bytes; pairs for each thread */
  if (!c->step->chained || c->is_strassen) return 0;
  const ptrdiff_t read = c->in.image * (ptrdiff_t)sizeof(float);
  ptrdiff_t made = 0;
  for (const gb_call *d = c; d <= c + c->step->chained; ++d) {
    const gb_buffer *out = &p->buffers[d->step->out];
    if (!d->units || (p->storages[out->storage].halo && p->storages[out->storage].channels != out->channels)) return 0;
    made += 2 * d->out.plane * (ptrdiff_t)sizeof(float);
  }
  const ptrdiff_t pairs = c->out.batch * (c->out.blocks / 2), threads = gb_threads();
  /* many pairs, or as many for each thread */
  const int is_even = pairs >= 2 * GB_PAIRS * threads || (pairs % threads == 0 && c->out.blocks % 2 == 0);
  return read <= GB_READ_OF && made <= GB_MADE_OF && pairs >= GB_PAIRS * threads && is_even;
}

/* Makes chains of steps where that can be. */
static void gb_chain(const gb_state *state, gb_plan *plan) {
  const gb_program *p = state->kernel->program;
  for (int k = 0; k < p->steps_count; k += 1 + plan->calls[k].chained) {
    gb_call *c = &plan->calls[k];
    double ns = 0.0;
    if (!gb_is_chained(p, c)) continue;
    c->chained = c->step->chained;
    for (gb_call *d = c; d <= c + c->chained; ++d) {
      ns += gb_nanoseconds(state->width, d);
      d->strip = d->rows; /* units of a block lie together */
      d->tasks = 0;
    }
    c->tasks = gb_tasks_of(ns, gb_most_tasks(c->out.batch * ((c->out.blocks + 1) / 2)));
  }
}

/* Fills in what a step works on. */
static gb_call gb_call_of(const gb_state *state, int k, const gb_size *sizes, char *const *slots) {
  const gb_step *s = &state->kernel->program->steps[k];
  gb_call c = {.step = s, .read = -1, .read2 = -1, .read3 = -1, .weights = state->weights[k], .bias = state->bias[k]};
  if (s->op != GB_LOAD) c.in = gb_image_of(state, s->in, sizes, slots);
  if (s->op != GB_STORE) c.out = gb_image_of(state, s->out, sizes, slots);
  else c.out = c.in;
  c.in2 = gb_image_of(state, s->in2, sizes, slots);
  c.in3 = gb_image_of(state, s->in3, sizes, slots);
  if (s->tensor >= 0 || s->op == GB_ATTENTION || s->op == GB_ROTARY) c.queries = gb_rows_of(state->kernel->program, s->in, sizes);
  if (s->op == GB_ATTENTION) c.keys = gb_rows_of(state->kernel->program, s->in2, sizes);
  for (ptrdiff_t v = 0, width = state->width->vector; v < width; ++v)
    c.lanes[v] = c.out.channels % width == 0 || v < c.out.channels % width ? -1 : 0;
  gb_divide(state->width, &c);
  c.tasks = gb_tasks(state->width, &c);
  return c;
}

/* Makes the steps of a plan, which has memory for them. */
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
    c->whole = c->out.data - p->buffers[s->out].first / (c->out.is_planar ? 1 : state->width->vector) * c->out.plane;
  }
}

/* The plan for images of these sizes, that of the last run if it was of the same; NULL where there is no memory. */
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
    const size_t size = (size_t)gb_rounded(image.batch * image.image * (ptrdiff_t)sizeof(float), GB_ALIGN);
    const int slot = p->storages[p->buffers[b].storage].slot;
    if (size > at[slot]) at[slot] = size;
  }
  for (int k = 0; k < p->steps_count; ++k) {
    if (!gb_may_need_scratch(&p->steps[k])) continue; /* dividing all steps twice takes as long as a short run */
    const gb_call c = gb_call_of(state, k, sizes, NULL);
    const size_t needed = (size_t)gb_scratch(state->width, &c);
    if (needed > scratch) scratch = needed;
  }
  for (int k = 0; k < p->slots; ++k) all += at[k] + GB_ALIGN;
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
  plan->scratch = next;
  plan->scratch_size = scratch;
  gb_fill(state, plan, slots);
  gb_chain(state, plan);
  for (int k = 0; k < p->steps_count; ++k) {
    gb_call *c = &plan->calls[k];
    if (c->is_strassen) gb_give_sums(state, k, c);
    if (c->step->op == GB_WINOGRAD) gb_give_transformed(state, k, c);
    gb_store_directly(state, plan, k);
    gb_read_directly(state, plan, k);
  }
  plan->threads = 1;
  for (int k = 0; k < p->steps_count; ++k)
    if (plan->calls[k].tasks > plan->threads) plan->threads = plan->calls[k].tasks;
  if (plan->threads > gb_threads()) plan->threads = gb_threads();
  return plan;
}
