/* Converts images of one pixel to rows, or rows to such images. A unit is a block of channels. */
#ifdef GB_V
void GB(flatten)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const ptrdiff_t count = c->in.batch * c->in.width; /* one of them is 1 */
  const ptrdiff_t x_step = c->in.batch > 1 ? c->in.image : c->in.pixel,
                  y_step = c->out.batch > 1 ? c->out.image : c->out.pixel;
  (void)scratch;
  for (; unit < end; ++unit) {
    const float *x = c->in.data + unit * c->in.plane;
    float *y = c->out.data + unit * c->out.plane;
    for (ptrdiff_t k = 0; k < count; ++k, x += x_step, y += y_step) {
      *(GB(vec) *)y = GB(load)(x);
      GB(activate)(y, GB_V, c->step);
    }
  }
}

#else
static gb_size gb_flattened(const gb_program *p, const gb_step *s, gb_size in) {
  return p->storages[p->buffers[s->out].storage].rows ? (gb_size){1, 1, in.batch}
                                                      : (gb_size){in.width, 1, 1};
}

static void gb_divide_blocks(const gb_width *width, gb_call *c) {
  (void)width;
  c->units = c->out.blocks;
}
#endif
