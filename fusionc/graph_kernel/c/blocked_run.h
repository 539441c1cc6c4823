/* What a run of a program needs: the sizes of images, memory, and packed weights. */
/* in the order of the numbers that gk_best_body returns */
extern const gb_width *const gb_widths[];

enum { GB_MOST_THREADS = 64, GB_ALIGN = 64, GB_HUGE_PAGE = 2 << 20, GB_PAGE_FLOATS = 1024 };
/* The bytes of memory after all images: a tile of narrow numbers is read as a whole, even if it
 * extends beyond the last pixel. */
enum { GB_BEYOND = 16 << 10 };

#if defined(__linux__)
/* declared here, because sys/mman.h does not do so with plain C11 */
extern int madvise(void *, size_t, int);
#endif

/* The state of a program in a session. `spare` is the plan of the last run. A later run takes it
 * and uses it again; if several runs are in progress, only one of them can do so. */
typedef struct {
  const gk_kernel *kernel;
  const gb_width *width;
  /* for each step: its weights, and its bias, in the order in which its tasks read them, or NULL */
  const float **weights, **bias;
  float *constants; /* the memory of weights and biases */
  /* for each step: floats that its algorithm has derived from its weights, or NULL */
  _Atomic(void *) *derived;
  _Atomic(void *) spare;
} gb_state;

typedef struct {
  ptrdiff_t batch, height, width;
} gb_size;

static ptrdiff_t gb_rounded(ptrdiff_t n, ptrdiff_t to) { return (n + to - 1) / to * to; }

/* A kind of steps: its traits, and the functions that its header defines. The table of kinds is
 * generated from blocked/kinds. If a function is NULL in the table, the runtime uses a default,
 * which is below. `sizes` has an entry for each storage. */
typedef struct {
  char keeps_pixels;    /* without a window: computes each pixel from the pixel at the same place */
  char scatters;        /* may compute consecutive pixels whose rows have gaps in the result */
  char second_is_pixel; /* in2 is one pixel for each image */
  char reads_tables;    /* in2 and in3 are rows that may be in tensors */
  char is_matrix;       /* may be a product of pixels and a matrix */
  char writes_rows;     /* may write rows directly to the tensors of later stores */
  char gives_range;     /* its tasks may also find the range of its result */
  /* the number of floats of packed weights */
  ptrdiff_t (*packed_floats)(const gb_width *, const gb_step *, ptrdiff_t in, ptrdiff_t out);
  /* the size of the result, computed from the size of the image */
  gb_size (*size)(const gb_program *, const gb_step *, gb_size in);
  /* what is wrong with the sizes of the operands, or NULL; `input_sizes` are the shapes of the
   * inputs */
  const char *(*fault)(const gk_kernel *, const gb_step *, const gb_size *sizes, gb_size out,
                       const int64_t *const *input_sizes);
  /* divides a step into units */
  void (*divide)(const gb_width *, gb_call *);
  /* the number of multiplications of a step */
  double (*products)(const gb_call *);
  /* an estimate of the time of a step on one thread */
  double (*nanoseconds)(const gb_width *, const gb_call *);
  /* the number of tasks that share the units, at most `most` */
  ptrdiff_t (*most_tasks)(const gb_call *, ptrdiff_t most);
  /* derives data from the weights of step k; called once, when a run first needs the data */
  void (*derive)(gb_state *, int k, gb_call *);
} gb_kind;
static const gb_kind gb_kinds[GB_KINDS];

typedef _Atomic(ptrdiff_t) gb_counter;

/* A program with images of some sizes: its steps, and the memory that they work on. */
typedef struct {
  gb_call *calls;
  gb_counter *ended; /* for each step: how many of its tasks are done */
  /* for each thread and step: how many tasks of the thread's share have begun, in any thread */
  gb_counter *begun;
  gb_size *sizes;    /* the sizes of the images of each storage */
  size_t size;       /* bytes of memory */
  ptrdiff_t threads; /* how many threads can work at the same time */
  char *memory, *scratch;
  size_t scratch_size; /* bytes of scratch memory for each thread */
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
  for (int k = 0; state->derived && k < state->kernel->program->steps_count; ++k)
    free(state->derived[k]);
  free(state->derived);
  gb_free_plan(state->spare);
  free(state);
}

/* Allocates memory. The memory is in large pages if the system has them, because tasks read and
 * write many places at once. */
static void *gb_allocate(ptrdiff_t bytes) {
  const ptrdiff_t align = bytes >= GB_HUGE_PAGE ? GB_HUGE_PAGE : GB_ALIGN,
                  size = gb_rounded(bytes > 0 ? bytes : 1, align);
  void *memory = aligned_alloc((size_t)align, (size_t)size);
#if defined(__linux__)
  if (memory && size >= GB_HUGE_PAGE) madvise(memory, (size_t)size, 14); /* MADV_HUGEPAGE */
#endif
  return memory;
}

/* The number of threads. It is determined only once, because the system call may take as long as a
 * step. */
static ptrdiff_t gb_threads(void) {
  static _Atomic long threads;
  if (!threads) {
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    threads = n < 1 ? 1 : n > GB_MOST_THREADS ? GB_MOST_THREADS : n;
  }
  return threads;
}

/* Keeps the data that was derived for step k, and returns it. If two runs have derived it at the
 * same time, one of the two copies is freed. */
static float *gb_keep_derived(gb_state *state, int k, float *made) {
  void *known = NULL;
  if (__atomic_compare_exchange_n((void **)&state->derived[k], &known, made, 0, __ATOMIC_SEQ_CST,
                                  __ATOMIC_SEQ_CST))
    return made;
  free(made);
  return known;
}

/* The number of floats of packed weights. Channels are rounded up to whole blocks. */
static ptrdiff_t gb_packed_floats(const gb_width *width, const gb_step *s, ptrdiff_t in,
                                  ptrdiff_t out) {
  return gb_rounded(in / s->group, width->vector) * gb_rounded(out, width->vector) * s->kernel[0] *
         s->kernel[1];
}

static ptrdiff_t gb_packed_size(const gb_width *width, const gb_program *p, const gb_step *s) {
  const gb_kind *kind = &gb_kinds[s->op];
  return (kind->packed_floats ? kind->packed_floats : gb_packed_floats)(
      width, s, p->buffers[s->in].channels, p->buffers[s->out].channels);
}

/* The elements of a constant as floats. If they have another type, they are converted into
 * `room`. */
static const float *gb_as_floats(const gk_kernel *kernel, const gb_width *width,
                                 const gb_constant *constants, int tensor, float *room) {
  const gb_unpacking *unpacking = gb_unpacking_of(kernel->program, tensor);
  if (unpacking) return gb_unpacked(unpacking, constants, room);
  const gb_constant *constant = &constants[tensor];
  if (tensor >= kernel->inputs || kernel->types[tensor] != GB_FLOAT16) return constant->data;
  width->widen((const uint16_t *)(const void *)constant->data, room, constant->count);
  return room;
}

/* The number of elements of the largest float16 constant. */
static ptrdiff_t gb_largest_float16(const gk_kernel *kernel, const gb_constant *constants) {
  ptrdiff_t largest = 0;
  for (int k = 0; k < kernel->inputs; ++k)
    if (kernel->types[k] == GB_FLOAT16 && constants[k].count > largest)
      largest = constants[k].count;
  return largest;
}

/* Makes the state of a program for a session. NULL if there is not enough memory. `constants` are
 * the tensors with weights. All packed weights share one allocation, so that small ones are in
 * large pages, too. */
static gb_state *gb_new(const gk_kernel *kernel, const gb_constant *constants) {
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
  const ptrdiff_t halves = gb_largest_float16(kernel, constants), unpacked = gb_floats_to_unpack(p);
  float *room = malloc((size_t)((halves > unpacked ? halves : unpacked) + 1) * sizeof *room);
  if (!state->weights || !state->bias || !state->derived || !to || !room) {
    free(room);
    gb_free(state);
    return NULL;
  }
  memset(to, 0, (size_t)all * sizeof *to);
  for (int k = 0; k < p->steps_count; ++k) {
    const gb_step *s = &p->steps[k];
    if (s->weights >= 0) {
      state->width->packs[s->op](gb_as_floats(kernel, state->width, constants, s->weights, room),
                                 to, s, p->buffers[s->in].channels, p->buffers[s->out].channels);
      state->weights[k] = to;
      to += gb_rounded(gb_packed_size(state->width, p, s), GB_ALIGN);
    }
    if (s->bias >= 0) {
      memcpy(to, gb_as_floats(kernel, state->width, constants, s->bias, room),
             (size_t)p->buffers[s->out].channels * sizeof *to);
      state->bias[k] = to;
      to += gb_rounded(p->buffers[s->out].channels + v, GB_ALIGN);
    }
  }
  free(room);
  return state;
}

static ptrdiff_t gb_sized(const gb_step *s, int axis, ptrdiff_t size) {
  const ptrdiff_t reach = (ptrdiff_t)s->dilation[axis] * (s->kernel[axis] - 1) + 1;
  const ptrdiff_t room = size + s->pads[axis] + s->pads[axis + 2] - reach;
  if (room < 0 && (s->weights >= 0 || size <= 0)) return 0;
  /* as in onnxruntime, a pool has one window if the image is smaller than the window */
  return room / s->stride[axis] + 1;
}

static ptrdiff_t gb_enlarged(const gb_step *s, int axis, ptrdiff_t size) {
  const ptrdiff_t made =
      (size - 1) * s->stride[axis] + s->kernel[axis] - s->pads[axis] - s->pads[axis + 2];
  return made > 0 ? made : 0;
}

/* The number of rows that a buffer has for each batch. */
static ptrdiff_t gb_rows_of(const gb_program *p, int buffer, const gb_size *sizes) {
  const gb_size size = sizes[p->buffers[buffer].storage];
  return size.height * size.width;
}

/* Whether the images of a buffer have the size `others`; or, if is_pixel, whether the buffer has
 * one pixel for each image of that size. True if there is no such buffer. */
static int gb_fits(const gb_program *p, int buffer, const gb_size *sizes, gb_size others,
                   int is_pixel) {
  if (buffer < 0) return 1;
  const gb_size size = sizes[p->buffers[buffer].storage];
  if (is_pixel) others.height = others.width = 1;
  return size.batch == others.batch && size.height == others.height && size.width == others.width;
}

/* The error if the sizes of images that are added or multiplied do not fit, otherwise NULL. If
 * is_pixel, in2 must have one pixel for each image. */
static const char *gb_unlike(const gb_program *p, const gb_step *s, const gb_size *sizes,
                             gb_size out, int is_pixel) {
  const int fits = gb_fits(p, s->in2, sizes, out, is_pixel) && gb_fits(p, s->in3, sizes, out, 1);
  return fits ? NULL : "two images that are added or multiplied have different sizes";
}

/* The size of the result of a step with a window. */
static gb_size gb_windowed(const gb_program *p, const gb_step *s, gb_size in) {
  (void)p;
  return (gb_size){in.batch, gb_sized(s, 0, in.height), gb_sized(s, 1, in.width)};
}

/* Sets the size of the images that a step loads from a tensor of shape n. Returns an error or NULL.
 */
static const char *gb_loaded(const gk_kernel *kernel, const gb_step *s, const int64_t *n,
                             gb_size *size) {
  const int rank = kernel->ranks[s->in], is_last = s->is_channels_last;
  if (n[is_last ? rank - 1 : 1] != kernel->program->buffers[s->out].channels)
    return "an input has another number of channels than the kernel was made for";
  if (is_last) *size = (gb_size){rank > 2 ? n[0] : 1, rank > 3 ? n[1] : 1, n[rank - 2]};
  else *size = (gb_size){n[0], n[2], n[3]};
  return NULL;
}

/* Sets the sizes of the images in all storages. Returns an error or NULL. `input_sizes` are the
 * shapes of the inputs: images are [batch, channels, height, width]; rows are [batch, height,
 * width, channels], or the same without batch and height; the addend of attention scores is [batch,
 * head, query, key]; the selection of rows to clear is [batch, row, 1]. */
static const char *gb_sizes(const gk_kernel *kernel, const int64_t *const *input_sizes,
                            gb_size *sizes) {
  const gb_program *p = kernel->program;
  for (int k = 0; k < p->storages_count; ++k) sizes[k].batch = -1;
  for (int k = 0; k < p->steps_count; ++k) {
    const gb_step *s = &p->steps[k];
    if (s->op == GB_STORE) continue;
    const gb_kind *kind = &gb_kinds[s->op];
    gb_size out, *known = &sizes[p->buffers[s->out].storage];
    if (s->op == GB_LOAD) {
      const char *fault = gb_loaded(kernel, s, input_sizes[s->in], &out);
      if (fault) return fault;
    } else {
      const gb_size in = sizes[p->buffers[s->in].storage];
      const ptrdiff_t least = s->weights >= 0 && in.height > 0 && in.width > 0;
      out = kind->size ? kind->size(p, s, in) : in;
      if (out.height < least || out.width < least) return "a window is larger than its image";
    }
    const char *fault = kind->fault ? kind->fault(kernel, s, sizes, out, input_sizes)
                                    : gb_unlike(p, s, sizes, out, kind->second_is_pixel);
    if (fault) return fault;
    if (known->batch >= 0 &&
        (known->batch != out.batch || known->height != out.height || known->width != out.width))
      return "images that are joined have different sizes";
    *known = out;
  }
  return NULL;
}

/* The shape of the tensor that a step stores. */
static void gb_stored(const gk_kernel *kernel, const gb_step *s, const gb_size *sizes,
                      int64_t *shape) {
  const gb_buffer *b = &kernel->program->buffers[s->in];
  const gb_size size = sizes[b->storage];
  const int64_t image[] = {size.batch, b->channels, size.height, size.width};
  const int rank = kernel->ranks[kernel->inputs + s->out];
  const int64_t rows[] = {size.batch, rank > 3 ? size.height : size.width,
                          rank > 3 ? size.width : b->channels, b->channels};
  memcpy(shape, s->is_channels_last ? rows + (rank == 2) : image, (size_t)rank * sizeof *shape);
}

/* The distance between blocks of `floats` floats. It is never a number of whole pages: then all
 * blocks of a pixel would share the same few sets of the first-level cache. */
static ptrdiff_t gb_apart(ptrdiff_t floats) {
  enum { LINE = 16, AMONG = 8, PLACE = 5 };
  const ptrdiff_t lines = (floats + LINE - 1) / LINE;
  return floats < GB_PAGE_FLOATS ? floats
                                 : (lines + (PLACE + AMONG - lines % AMONG) % AMONG) * LINE;
}

static gb_image gb_image_of(const gb_state *state, int number, const gb_size *sizes,
                            char *const *slots) {
  const gb_program *p = state->kernel->program;
  if (number < 0) return (gb_image){0};
  const gb_buffer *b = &p->buffers[number];
  const gb_storage *storage = &p->storages[b->storage];
  gb_size size = sizes[b->storage];
  if (storage->rows) size = (gb_size){1, 1, size.batch * size.height * size.width};
  enum { GB_BYTES_VECTOR = 16 }; /* floats; the same for all widths of vectors */
  const ptrdiff_t vector = storage->bytes == 1 ? GB_BYTES_VECTOR : state->width->vector;
  const ptrdiff_t v = b->planar ? 1 : vector, halo = storage->halo,
                  own = v * (ptrdiff_t)sizeof(float) / storage->bytes;
  gb_image image = {.batch = size.batch,
                    .channels = b->channels,
                    .blocks = (b->channels + own - 1) / own,
                    .height = size.height,
                    .width = size.width,
                    .pixel = v,
                    .is_planar = b->planar,
                    .bytes = storage->bytes,
                    .own = own};
  image.row = (size.width + 2 * halo) * v;
  image.plane = gb_apart((size.height + 2 * halo) * image.row);
  image.image = (storage->channels + own - 1) / own * image.plane;
  if (slots)
    image.data = (float *)(void *)slots[storage->slot] + b->first / own * image.plane +
                 halo * image.row + halo * v;
  return image;
}
