/* How convolutions are made by Winograd's way, and what they need for it. */

/* Some tiles are transformed at once, a chunk. Where chunks are few, each is several units of some of the blocks, so that a
 * thread whose core has other work, too, leaves some to the others: these transform its tiles once more. */
static void gb_divide_winograd(const gb_width *width, gb_call *c) {
  enum { GB_FOR_EACH = 8 }; /* units for each thread */
  const ptrdiff_t pixels = GB_PIXELS_OF(c->step->flag), across = (c->out.width + pixels - 1) / pixels;
  const ptrdiff_t down = (c->out.height + pixels - 1) / pixels;
  const ptrdiff_t most = width->tiles_at_once(c->in.blocks * width->vector, c->step->flag), pairs = (c->out.blocks + 1) / 2;
  const ptrdiff_t tiles = c->out.batch * down * across;
  c->part = most;
  c->rows = (tiles + most - 1) / most;
  c->strip = c->rows ? (GB_FOR_EACH * gb_threads() + c->rows - 1) / c->rows : 1;
  if (c->strip > pairs) c->strip = pairs;
  c->units = c->rows * c->strip;
}

/* Gives step k its weights at the points of tiles, up to 4 times as many. What a run needs once is made in that run, which
 * takes less time than to read so many; so it is where there is no memory for them. */
static void gb_give_transformed(gb_state *state, int k, gb_call *c) {
  const ptrdiff_t kernel_points = GB_KERNEL_POINTS(c->step->flag), v = state->width->vector;
  float *made = state->derived[k];
  if (c->rows <= 1) return;
  if (!made) {
    if (!(made = gb_allocate(kernel_points * c->in.blocks * c->out.blocks * v * v * (ptrdiff_t)sizeof *made))) return;
    state->width->transform_weights(state->weights[k], made, c->in.blocks, c->out.blocks, c->step->flag);
    made = gb_keep_derived(state, k, made);
  }
  c->derived = made;
}
