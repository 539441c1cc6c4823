/* How steps are divided into units (the smallest parts of their work), and estimates of their time.
 * A part is some pixels. A strip is some parts, which are computed for all blocks of channels
 * before the next parts are. */
/* the bytes of an image that a strip reads */
enum { GB_STRIP = 512 << 10 };

/* Whether rows of pixels have no gaps between them. */
static int gb_is_flat(const gb_image *image) {
  return !image->data || image->row == image->width * image->pixel;
}

/* Whether a step can treat all rows as one. It can if it computes each pixel from the pixel at the
 * same place, and if rows have no gaps between them. The rows of a convolution's result may have
 * gaps, if they are so short that moving pixels takes less time than partly filled tiles. */
static int gb_is_by_pixel(const gb_width *width, const gb_call *c) {
  const gb_step *s = c->step;
  const gb_kind *kind = &gb_kinds[s->op];
  const int is_point = s->kernel[0] * s->kernel[1] == 1 && s->stride[0] + s->stride[1] == 2 &&
                       s->pads[0] + s->pads[1] == 0;
  const int is_short = c->out.width < 2 * width->tile && c->out.width % width->tile;
  return kind->keeps_pixels && is_point && gb_is_flat(&c->in) &&
         (gb_is_flat(&c->out) || (kind->scatters && is_short)) &&
         (kind->second_is_pixel || gb_is_flat(&c->in2));
}

/* Divides all pixels into parts of about eight tiles, and at most nine (GB_PART). If there are few
 * parts, their number is a multiple of the number of threads, so that all threads have the same
 * work. */
static void gb_divide_pixels(const gb_width *width, gb_call *c, ptrdiff_t pixels, int is_in_tiles) {
  enum { GB_FEW = 4 }; /* this many parts for each thread, or fewer, are few */
  const ptrdiff_t most = 8 * width->tile, threads = gb_threads(), left = pixels % most;
  /* if only a few pixels remain, they do not become a part of their own */
  ptrdiff_t parts = pixels / most + (left >= width->tile / 2 || pixels < most);
  if (parts < GB_FEW * threads && pixels >= threads * width->tile)
    parts = gb_rounded(parts, threads);
  /* parts of whole tiles take the least time for each pixel */
  c->part = gb_rounded((pixels + parts - 1) / parts, is_in_tiles ? width->tile : 1);
  c->rows = c->part ? (pixels + c->part - 1) / c->part : 0;
}

/* The number of parts of a strip. By default, it is each thread's share of an image, so that a
 * thread finds in its cache what it has computed in the step before. For convolutions, it is about
 * as many parts as the cache holds, and the number of strips is a multiple of the number of
 * threads. If an input channel has more weights than pixels, each thread reads all pixels, and only
 * some of the weights. */
static ptrdiff_t gb_strip_of(const gb_call *c, int is_convolution) {
  const gb_step *s = c->step;
  const ptrdiff_t threads = gb_threads(),
                  of_each = c->rows < threads ? c->rows : (c->rows + threads - 1) / threads;
  if (!is_convolution || !c->rows) return of_each;
  const ptrdiff_t read =
      c->in.channels / s->group * c->part * s->stride[1] * (s->kernel[0] > 1 ? s->stride[0] : 1);
  const ptrdiff_t fit = GB_STRIP / (read * (ptrdiff_t)sizeof(float) + 1) + 1,
                  most = fit < c->rows ? fit : c->rows;
  /* the number of weights of an input channel */
  const ptrdiff_t of_channel = (ptrdiff_t)s->kernel[0] * s->kernel[1] * c->out.channels / s->group;
  if (c->rows < threads || of_channel >= c->in.height * c->in.width) return most;
  /* rounded to a multiple of the number of threads */
  const ptrdiff_t strips = ((c->rows + most - 1) / most + threads / 2) / threads * threads;
  return strips > threads ? (c->rows + strips - 1) / strips : of_each;
}

/* The number of pairs of blocks of output channels. */
static ptrdiff_t gb_pairs(const gb_call *c) {
  return (c->out.blocks / c->step->group + 1) / 2 * c->step->group;
}

/* Divides a step into units: parts of blocks, or of pairs of blocks, of channels. */
static void gb_divide_into(const gb_width *width, gb_call *c, ptrdiff_t blocks,
                           int is_convolution) {
  c->is_flat = gb_is_by_pixel(width, c);
  c->is_scattered = c->is_flat && !gb_is_flat(&c->out);
  if (gb_is_strassen(width, c)) {
    gb_divide_strassen(width, c);
    return;
  }
  c->part = c->out.width;
  c->rows = c->out.height;
  if (c->is_flat) gb_divide_pixels(width, c, c->out.height * c->out.width, is_convolution);
  c->strip = gb_strip_of(c, is_convolution);
  c->units = c->out.batch * blocks * c->rows;
}

/* Numbers of a step: the elements that it makes, the elements of its kernel, its weights, its
 * products, and the products that are computed in a nanosecond. */
static double gb_made(const gb_call *c) {
  return (double)c->out.batch * (double)c->out.height * (double)c->out.width *
         (double)c->out.channels;
}
static double gb_taps(const gb_step *s) { return (double)s->kernel[0] * s->kernel[1]; }
static double gb_weights(const gb_call *c) {
  return gb_taps(c->step) * (double)c->in.channels / c->step->group * (double)c->out.channels;
}
static double gb_products(const gb_call *c) { return gb_kinds[c->step->op].products(c); }
static double gb_speed(const gb_width *width) { return GB_PRODUCTS * width->vector; }

enum {
  GB_TASK_NS = 4000, /* about the least time of a task: much more than it takes to begin one */
  /* the most tasks for each thread: with only 8, threads wait for the last task; with more than
   * 24, no more time is saved */
  GB_TASKS = 24,
};

/* The number of tasks into which a step is divided. No task takes much less than GB_TASK_NS. */
static ptrdiff_t gb_tasks_of(double ns, ptrdiff_t most) {
  return ns > (double)GB_TASK_NS * (double)most ? most
         : ns > 2.0 * GB_TASK_NS                ? (ptrdiff_t)(ns / GB_TASK_NS)
                                                : most > 0;
}

static ptrdiff_t gb_most_tasks(ptrdiff_t units) {
  return GB_TASKS * gb_threads() < units ? GB_TASKS * gb_threads() : units;
}
