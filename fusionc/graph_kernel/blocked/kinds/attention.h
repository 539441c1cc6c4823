/* Attention of rows: softmax(q · k · scale + bias) · v for each head. It is computed as two
 * products of pixels and weights. In the first product, the queries are the pixels and the keys are
 * the weights. In the second one, the scores are the pixels and the values are the weights. The
 * rows are always in the blocked layout, GB_V floats apart, and never in the layout of a tensor. */
#ifdef GB_V
/* The most blocks of keys in one running sum. Rounding errors grow with the length of a sum. */
enum { GB(LONGEST_SUM) = 512 / GB_V };

/* The memory of a task: keys and values as weights, the scores of some queries, one row of scores,
 * and partial results (for some of the keys). */
typedef struct {
  float *keys, *values, *scores, *row, *some;
  ptrdiff_t blocks; /* of keys */
} GB(head);

GK_INLINE ptrdiff_t GB(blocks_of)(ptrdiff_t count) { return (count + GB_V - 1) / GB_V; }

ptrdiff_t GB(attention_floats)(const gb_call *c) {
  const ptrdiff_t channels = (c->in.channels + c->out.channels) / c->step->heads;
  return GB(blocks_of)(c->keys) * GB_V * (channels + c->part + 1) + channels * c->part;
}

/* Transposes keys from [key, channel] to [channel][key], and fills the last block of keys up with
 * zeros. */
static void GB(turn_keys)(const float *from, ptrdiff_t plane, ptrdiff_t keys, ptrdiff_t channels,
                          float *to) {
  const ptrdiff_t blocks = GB(blocks_of)(keys), whole = keys / 4 * 4;
  for (ptrdiff_t key = 0; key < whole; key += 4) {
    const ptrdiff_t step = ((key / GB_V | 1) < blocks ? 2 : 1) * GB_V;
    for (ptrdiff_t i = 0; i < channels; i += 4)
      gb_transpose(from + i / GB_V * plane + key * GB_V + i % GB_V, GB_V,
                   GB(packed)(to, key / GB_V, blocks, channels, i) + key % GB_V, step);
  }
  for (ptrdiff_t key = whole; key < blocks * GB_V; ++key)
    for (ptrdiff_t i = 0; i < channels; ++i)
      GB(packed)(to, key / GB_V, blocks, channels, i)[key % GB_V] =
          key < keys ? from[i / GB_V * plane + key * GB_V + i % GB_V] : 0.0f;
}

/* Copies values [key, channel] so that the channels of two blocks are side by side. */
static void GB(take_values)(const float *from, ptrdiff_t plane, ptrdiff_t keys, ptrdiff_t channels,
                            float *to) {
  const ptrdiff_t all = GB(blocks_of)(keys) * GB_V;
  for (ptrdiff_t b = 0; b < channels / GB_V; ++b)
    for (ptrdiff_t key = 0; key < all; ++key)
      *(GB(vec) *)GB(packed)(to, b, channels / GB_V, all, key) =
          key < keys ? GB(load)(from + b * plane + key * GB_V) : (GB(vec)){0};
}

/* Multiplies `blocks` of the `all` blocks of x, from block `first` on, by their weights, and adds
 * the products to `made` blocks of y. */
static void GB(multiply)(const float *x, ptrdiff_t x_block, ptrdiff_t first, ptrdiff_t blocks,
                         ptrdiff_t all, ptrdiff_t last, const float *w, ptrdiff_t count, float *y,
                         ptrdiff_t y_block, ptrdiff_t made) {
  for (ptrdiff_t b = 0; b < made; b += 2) {
    const int is_two = b + 1 < made;
    GB(tile) t = {
        .x = x + first * x_block,
        .x_pixel = GB_V,
        .x_block = x_block,
        .w = w + (b * all + (1 + is_two) * first) * GB_V * GB_V,
        .blocks = blocks,
        .last = last,
        .rows = 1,
        .columns = 1,
        .y = y + b * y_block,
        .y_pixel = GB_V,
        .y_block = y_block,
    };
    GB(pixels)(&t, count, GB(near_tiles)[is_two], 1 + is_two);
  }
}

/* Softmax: replaces the scores of one query by shares that add up to 1. `step` is the distance
 * between blocks of scores. */
static void GB(weigh)(const GB(head) *h, float *scores, ptrdiff_t step, ptrdiff_t keys, float scale,
                      const float *bias) {
  const gk_machine m = gk_machine_with(GB_FUSED);
  const ptrdiff_t all = h->blocks * GB_V, whole = keys / GB_V;
  GB(vec) largest = GB(all)(-INFINITY);
  float *row = h->row, most = -INFINITY, sum = 0.0f;
  for (ptrdiff_t b = 0; b < whole; ++b) {
    GB(vec) x = GB(load)(scores + b * step) * scale;
    if (bias) x += GB(load_loose)(bias + b * GB_V);
    *(GB(vec) *)(row + b * GB_V) = x;
    largest = GB_MAX(x, largest); /* stays the same if x is NaN */
  }
  for (int v = 0; v < GB_V; ++v) most = largest[v] > most ? largest[v] : most;
  for (ptrdiff_t key = whole * GB_V; key < all; ++key) {
    const float x = scores[whole * step + key % GB_V] * scale;
    row[key] = key >= keys ? -INFINITY : bias ? x + bias[key] : x;
    most = row[key] > most ? row[key] : most;
  }
  _Pragma("omp simd reduction(+ : sum)") for (ptrdiff_t key = 0; key < all; ++key) {
    row[key] = gk_exp_of_negative_f32(row[key] - most, m);
    sum += row[key];
  }
  for (ptrdiff_t b = 0; b < h->blocks; ++b)
    *(GB(vec) *)(scores + b * step) = GB(load)(row + b * GB_V) * (1.0f / sum);
}

/* Computes the results of some queries: the sums of the values multiplied by their shares. */
static void GB(take_shares)(const gb_call *c, const GB(head) *h, ptrdiff_t count, float *y,
                            ptrdiff_t made) {
  const ptrdiff_t step = c->part * GB_V, last = GB(last_of)(c->keys);
  for (ptrdiff_t b = 0; b < h->blocks || b == 0; b += GB(LONGEST_SUM)) {
    const int is_all = h->blocks - b <= GB(LONGEST_SUM);
    GB(multiply)(h->scores, step, b, is_all ? h->blocks - b : GB(LONGEST_SUM), h->blocks,
                 is_all ? last : GB_V, h->values, count, b ? h->some : y, b ? step : c->out.plane,
                 made);
    for (ptrdiff_t o = 0; b && o < made; ++o)
      for (ptrdiff_t q = 0; q < count * GB_V; q += GB_V)
        *(GB(vec) *)(y + o * c->out.plane + q) += GB(load)(h->some + o * step + q);
  }
}

/* The numbers that the tensor adds to the scores of a query, as floats. NULL if there is no tensor.
 * `weigh` may later write its sums over them. */
GK_INLINE const float *GB(bias_of)(const gb_call *c, const GB(head) *h, ptrdiff_t number) {
  if (!c->tensor || !c->is_float16) return c->tensor ? c->tensor + number : NULL;
  GB(widen_float16)((const uint16_t *)(const void *)c->tensor + number, h->row, c->keys);
  return h->row;
}

/* Computes attention for some queries of one head of one batch. */
static void GB(attend_some)(const gb_call *c, const GB(head) *h, ptrdiff_t batch, ptrdiff_t head,
                            ptrdiff_t first, ptrdiff_t count) {
  const gb_step *s = c->step;
  const ptrdiff_t taken = c->in.blocks / s->heads, made = c->out.blocks / s->heads,
                  step = c->part * GB_V;
  const ptrdiff_t at = batch * c->queries + first;
  float *y = c->out.data + head * made * c->out.plane + at * GB_V;
  const float *x = c->in.data + head * taken * c->in.plane + at * GB_V;
  const ptrdiff_t bias = batch * c->tensor_batch + head * c->tensor_part + first * c->keys;
  GB(multiply)(x, c->in.plane, 0, taken, taken, GB_V, h->keys, count, h->scores, step, h->blocks);
  for (ptrdiff_t q = 0; q < count; ++q)
    GB(weigh)(h, h->scores + q * GB_V, step, c->keys, s->scale,
              GB(bias_of)(c, h, bias + q * c->keys));
  GB(take_shares)(c, h, count, y, made);
  for (ptrdiff_t b = 0; b < made; ++b) GB(activate)(y + b * c->out.plane, count * GB_V, s);
}

/* A unit is a part of the queries of a head; a head has c->rows parts. */
void GB(attend)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const ptrdiff_t heads = c->step->heads, taken = c->in.channels / heads,
                  made = c->out.channels / heads;
  /* heads of queries for each head of keys */
  const ptrdiff_t times = c->in.channels / c->in2.channels;
  GB(head) h = {.blocks = GB(blocks_of)(c->keys), .keys = scratch};
  h.values = h.keys + h.blocks * GB_V * taken;
  h.scores = h.values + h.blocks * GB_V * made;
  h.row = h.scores + h.blocks * GB_V * c->part;
  h.some = h.row + h.blocks * GB_V;
  for (ptrdiff_t former = -1; unit < end; ++unit) {
    const ptrdiff_t number = unit / c->rows, head = number % heads, batch = number / heads;
    const ptrdiff_t first = unit % c->rows * c->part, left = c->queries - first;
    const ptrdiff_t at = batch * c->keys * GB_V;
    if (number / times != former) {
      const ptrdiff_t of_keys = head / times;
      GB(turn_keys)(c->in2.data + of_keys * (taken / GB_V) * c->in2.plane + at, c->in2.plane,
                    c->keys, taken, h.keys);
      GB(take_values)(c->in3.data + of_keys * (made / GB_V) * c->in3.plane + at, c->in3.plane,
                      c->keys, made, h.values);
      former = number / times;
    }
    GB(attend_some)(c, &h, batch, head, first, left < c->part ? left : c->part);
  }
}

#else
/* Checks the sizes of the operands. In the tensor that is added to the scores, the sizes of batch
 * and head may be 1, or the full numbers. */
static const char *gb_attention_fault(const gk_kernel *kernel, const gb_step *s,
                                      const gb_size *sizes, gb_size out,
                                      const int64_t *const *input_sizes) {
  const gb_program *p = kernel->program;
  const ptrdiff_t batch = out.batch, keys = gb_rows_of(p, s->in2, sizes);
  if (sizes[p->buffers[s->in2].storage].batch != batch ||
      sizes[p->buffers[s->in3].storage].batch != batch)
    return "queries, keys and values have different batches";
  if (gb_rows_of(p, s->in3, sizes) != keys) return "there are not as many values as keys";
  if (s->tensor < 0) return NULL;
  const int64_t *n = input_sizes[s->tensor];
  const int is_of_all = (n[0] == 1 || n[0] == batch) && (n[1] == 1 || n[1] == s->heads);
  const int is_of_each = n[2] == gb_rows_of(p, s->in, sizes) && n[3] == keys;
  return is_of_all && is_of_each ? NULL : "the addend of the scores does not fit the scores";
}

/* Chooses how many queries of a head belong to a unit: so few that their scores stay in the cache
 * of a core, and that all threads get some. */
static void gb_divide_attention(const gb_width *width, gb_call *c) {
  enum { GB_SCORES = 64 << 10 }; /* floats */
  /* the heads of all batches */
  const ptrdiff_t heads = c->queries ? c->out.width / c->queries * c->step->heads : 0;
  const ptrdiff_t fit = GB_SCORES / gb_rounded(c->keys + 1, width->vector), most = 8 * width->tile;
  c->part = fit > most ? most : fit < width->tile ? width->tile : fit;
  c->rows = (c->queries + c->part - 1) / c->part;
  if (heads && heads * c->rows < gb_threads()) c->rows = (gb_threads() + heads - 1) / heads;
  if (c->rows > c->queries) c->rows = c->queries;
  if (c->rows) {
    c->part = (c->queries + c->rows - 1) / c->rows;
    c->rows = (c->queries + c->part - 1) / c->part;
  }
  c->units = heads * c->rows;
}

/* The number of tasks, at most `most`. If possible, a task gets whole heads, because it must pack
 * the keys and values of each head that it works on. If threads would get different numbers of
 * heads, several tasks share a head. */
static ptrdiff_t gb_tasks_of_heads(ptrdiff_t heads, ptrdiff_t most) {
  ptrdiff_t tasks = most < heads ? most : heads;
  while (tasks > 0 && heads % tasks) --tasks;
  return tasks >= gb_threads() && tasks % gb_threads() == 0 ? tasks : most;
}

static ptrdiff_t gb_attention_tasks(const gb_call *c, ptrdiff_t most) {
  /* counted in heads of keys; there may be more heads of queries */
  return c->rows ? gb_tasks_of_heads(c->units / c->rows * c->in2.channels / c->in.channels, most)
                 : most;
}
#endif
