/* Lets products read rows from a tensor, or write rows to a tensor, without a copy in a buffer. */
static int gb_is_product(const gb_step *s) { return gb_kinds[s->op].is_matrix; }

/* Whether a step is a product of single pixels and a matrix. A window of several pixels would read
 * the border of zeros, which a buffer has but a tensor does not. */
static int gb_is_plain_product(const gb_step *s) {
  const int *kernel = s->kernel, *pads = s->pads;
  return gb_is_product(s) && kernel[0] * kernel[1] == 1 && !(pads[0] | pads[1] | pads[2] | pads[3]);
}

static int gb_writes(const gb_program *p, const gb_step *s, int storage) {
  return s->op != GB_STORE && p->buffers[s->out].storage == storage;
}

static int gb_reads(const gb_program *p, const gb_step *s, int storage) {
  if (s->op != GB_LOAD && p->buffers[s->in].storage == storage) return 1;
  return (s->in2 >= 0 && p->buffers[s->in2].storage == storage) ||
         (s->in3 >= 0 && p->buffers[s->in3].storage == storage);
}

/* The storage of a buffer, if the buffer has rows, and all channels of the storage. Otherwise
 * -1. */
static int gb_whole_rows(const gb_program *p, int buffer) {
  const gb_buffer *b = &p->buffers[buffer];
  const gb_storage *storage = &p->storages[b->storage];
  return storage->rows && b->first == 0 && b->channels == storage->channels ? b->storage : -1;
}

/* Lets a product write its rows directly to the tensors of stores. This is possible if only store
 * steps read the rows, and store each channel once; and if the tensors are float32, have a multiple
 * of GB_V channels, and begin with a pair of blocks. */
static void gb_store_directly(const gb_state *state, gb_plan *plan, int k) {
  const gb_program *p = state->kernel->program;
  const gb_step *maker = &p->steps[k];
  const int is_fit = gb_is_product(maker) || gb_kinds[maker->op].writes_rows;
  const int storage = is_fit ? gb_whole_rows(p, maker->out) : -1, v = state->width->vector;
  if (storage < 0) return;
  int channels = 0;
  for (int j = k + 1; j < p->steps_count; ++j) {
    const gb_step *s = &p->steps[j];
    if (!gb_reads(p, s, storage) && !gb_writes(p, s, storage)) continue;
    const gb_buffer *part = &p->buffers[s->in];
    if (s->op != GB_STORE || part->first != channels || channels % (2 * v) || part->channels % v)
      return;
    if (plan->calls[j].is_float16) return;
    channels += part->channels;
  }
  if (channels != p->storages[storage].channels) return;
  for (int j = k + 1; j < p->steps_count; ++j) {
    if (!gb_reads(p, &p->steps[j], storage)) continue;
    plan->calls[k].is_stored = 1;
    plan->calls[j].maker = &plan->calls[k];
    plan->calls[j].first = p->buffers[p->steps[j].in].first / v;
    plan->calls[j].tasks = 0;
  }
}

/* Lets the step that makes an image find the image's range while the image is in the cache of a
 * core. The range is written to the memory of the result of step k, which is free from then on (see
 * `lifetimes` in blocked/place_images.py). */
static void gb_range_directly(const gb_state *state, gb_plan *plan, int k) {
  const gb_program *p = state->kernel->program;
  const gb_step *s = &p->steps[k];
  if (s->op != GB_BYTE_RANGE || s[1].op != GB_BYTE_GRID || s[1].in != s->out) return;
  int maker = k - 1;
  while (maker >= 0 && !gb_writes(p, &p->steps[maker], p->buffers[s->in].storage)) --maker;
  if (maker < 0 || p->steps[maker].out != s->in || !gb_kinds[p->steps[maker].op].gives_range)
    return;
  gb_call *c = &plan->calls[maker], *range = &plan->calls[k];
  const ptrdiff_t room = range->out.batch * range->out.image;
  if (c->chained || !c->units || !c->tasks || 2 * c->units * state->width->vector > room) return;
  c->ranges = range->out.data;
  range->tasks = 0;
  plan->calls[k + 1].ranged = c;
}

/* Changes the distances of an image to those of rows in a tensor. */
static void gb_point_to_tensor(gb_image *image, int vector) {
  image->pixel = image->channels;
  image->plane = vector;
}

/* Lets steps read rows directly from a float32 tensor that has a multiple of GB_V channels. Such
 * steps are products without a window, and rotary embeddings, whose tables may have many more rows
 * than are needed. If rows are whole pages apart, they share the same few sets of the first-level
 * cache. Then they are read directly only as addends, or by Strassen's algorithm, which reads them
 * only once. */
static void gb_read_directly(const gb_state *state, gb_plan *plan, int k) {
  const gb_program *p = state->kernel->program;
  const int storage = p->steps[k].op == GB_LOAD ? gb_whole_rows(p, p->steps[k].out) : -1,
            v = state->width->vector;
  if (storage < 0 || p->storages[storage].channels % v || plan->calls[k].is_float16) return;
  const int is_apart = p->storages[storage].channels % GB_PAGE_FLOATS == 0;
  int last = k;
  while (++last < p->steps_count) {
    const gb_step *s = &p->steps[last];
    const int is_in = s->op != GB_LOAD && p->buffers[s->in].storage == storage;
    const int is_in2 = s->in2 >= 0 && p->buffers[s->in2].storage == storage;
    const int is_in3 = s->in3 >= 0 && p->buffers[s->in3].storage == storage;
    const int is_whole = (!is_in || gb_whole_rows(p, s->in) >= 0) &&
                         (!is_in2 || gb_whole_rows(p, s->in2) >= 0) &&
                         (!is_in3 || gb_whole_rows(p, s->in3) >= 0);
    const int is_of_product =
        gb_is_plain_product(s) && !is_in3 && !(is_apart && is_in && !plan->calls[last].is_strassen);
    const int is_of_angles = gb_kinds[s->op].reads_tables && !is_in;
    if (gb_reads(p, s, storage) && !(is_whole && (is_of_product || is_of_angles))) return;
    if (gb_writes(p, s, storage)) break;
  }
  plan->calls[k].tasks = 0;
  for (int j = k + 1; j <= last && j < p->steps_count; ++j) {
    gb_call *c = &plan->calls[j];
    if (!gb_reads(p, c->step, storage)) continue;
    if (p->buffers[c->step->in].storage == storage) {
      c->read = p->steps[k].in;
      gb_point_to_tensor(&c->in, v);
    }
    if (c->step->in2 >= 0 && p->buffers[c->step->in2].storage == storage) {
      c->read2 = p->steps[k].in;
      gb_point_to_tensor(&c->in2, v);
    }
    if (c->step->in3 >= 0 && p->buffers[c->step->in3].storage == storage) {
      c->read3 = p->steps[k].in;
      gb_point_to_tensor(&c->in3, v);
    }
  }
}
