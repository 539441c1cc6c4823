/* How steps are cut into units, and about how long they take. */
/* bytes of an image that are read for all blocks before the next ones are */
enum { GB_STRIP = 512 << 10 };

/* Whether pixels lie without a gap from row to row. */
static int gb_is_flat(const gb_image *image) {
  return !image->data || image->row == image->width * image->pixel;
}

/* Whether a step makes each pixel from the same one alone, whichever row that is in, and rows have
 * no gaps between them. A convolution may make some that have: where they are so short that tiles
 * are not full, that they are moved costs less. */
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

/* Parts of all pixels, each of about eight tiles, nine at most (GB_PART). Where there are few
 * parts, there are about as many for each thread. */
static void gb_divide_pixels(const gb_width *width, gb_call *c, ptrdiff_t pixels, int is_in_tiles) {
  enum { GB_FEW = 4 }; /* parts for each thread */
  const ptrdiff_t most = 8 * width->tile, threads = gb_threads(), left = pixels % most;
  /* a few pixels alone are no part */
  ptrdiff_t parts = pixels / most + (left >= width->tile / 2 || pixels < most);
  if (parts < GB_FEW * threads && pixels >= threads * width->tile)
    parts = gb_rounded(parts, threads);
  /* whole ones take least for a pixel */
  c->part = gb_rounded((pixels + parts - 1) / parts, is_in_tiles ? width->tile : 1);
  c->rows = c->part ? (pixels + c->part - 1) / c->part : 0;
}

/* How many parts each block has before any has the next: of one image as many as each thread has,
 * so that it finds in its own cache what it has made in the step before. Of convolutions about so
 * many that what is read of them stays in that cache, but a multiple for all threads; where there
 * are more weights for each channel in than pixels, each thread reads some of the weights instead,
 * and all pixels. */
static ptrdiff_t gb_strip_of(const gb_call *c, int is_convolution) {
  const gb_step *s = c->step;
  const ptrdiff_t threads = gb_threads(),
                  of_each = c->rows < threads ? c->rows : (c->rows + threads - 1) / threads;
  if (!is_convolution || !c->rows) return of_each;
  const ptrdiff_t read =
      c->in.channels / s->group * c->part * s->stride[1] * (s->kernel[0] > 1 ? s->stride[0] : 1);
  const ptrdiff_t fit = GB_STRIP / (read * (ptrdiff_t)sizeof(float) + 1) + 1,
                  most = fit < c->rows ? fit : c->rows;
  /* weights */
  const ptrdiff_t of_channel = (ptrdiff_t)s->kernel[0] * s->kernel[1] * c->out.channels / s->group;
  if (c->rows < threads || of_channel >= c->in.height * c->in.width) return most;
  /* about, of all threads */
  const ptrdiff_t strips = ((c->rows + most - 1) / most + threads / 2) / threads * threads;
  return strips > threads ? (c->rows + strips - 1) / strips : of_each;
}

/* Pairs of blocks of channels out. */
static ptrdiff_t gb_pairs(const gb_call *c) {
  return (c->out.blocks / c->step->group + 1) / 2 * c->step->group;
}

/* Cuts a step into parts of so many blocks, or pairs of blocks, of channels. */
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

/* Elements that a step makes; elements of its kernel; products in a nanosecond. */
static double gb_made(const gb_call *c) {
  return (double)c->out.batch * (double)c->out.height * (double)c->out.width *
         (double)c->out.channels;
}
static double gb_taps(const gb_step *s) { return (double)s->kernel[0] * s->kernel[1]; }
static double gb_speed(const gb_width *width) { return 4.0 * width->vector; }

enum {
  GB_TASK_NS = 4000, /* about what a task takes at least: much more than to begin it */
  /* for each thread at most: with 8 of them the last one is waited for, more than these gain
     nothing */
  GB_TASKS = 24,
};

/* How many tasks a step is cut into: none takes much less than GB_TASK_NS. */
static ptrdiff_t gb_tasks_of(double ns, ptrdiff_t most) {
  return ns > (double)GB_TASK_NS * (double)most ? most
         : ns > 2.0 * GB_TASK_NS                ? (ptrdiff_t)(ns / GB_TASK_NS)
                                                : most > 0;
}

static ptrdiff_t gb_most_tasks(ptrdiff_t units) {
  return GB_TASKS * gb_threads() < units ? GB_TASKS * gb_threads() : units;
}
