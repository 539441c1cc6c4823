/* Where the units of steps (the smallest parts of their work) are in images and in packed weights.
 * */

/* The place of a unit. A unit is some pixels of one row (or of any rows, if there are no gaps
 * between rows), for one block or a pair of blocks of channels, in one image. `top` is the first
 * part of the current strip (the parts that are computed for all blocks before the next parts). */
typedef struct {
  ptrdiff_t first, count, row, block, image, part, top;
} GB(place);

GK_INLINE void GB(find_pixels)(const gb_call *c, GB(place) *at) {
  const ptrdiff_t left = c->is_flat ? c->out.height * c->out.width - at->part * c->part : c->part;
  at->row = c->is_flat ? 0 : at->part;
  at->first = c->is_flat ? at->part * c->part : 0;
  at->count = left < c->part ? left : c->part;
}

GK_INLINE GB(place) GB(place_of)(const gb_call *c, ptrdiff_t unit, ptrdiff_t blocks) {
  GB(place) at = {.image = unit / (c->rows * blocks)};
  unit -= at.image * c->rows * blocks;
  at.top = unit / (c->strip * blocks) * c->strip;
  unit -= at.top * blocks;
  const ptrdiff_t height = c->rows - at.top < c->strip ? c->rows - at.top : c->strip;
  at.block = unit / height;
  at.part = at.top + unit % height;
  GB(find_pixels)(c, &at);
  return at;
}

/* Moves on to the next unit. */
GK_INLINE void GB(advance)(const gb_call *c, GB(place) *at, ptrdiff_t blocks) {
  if (++at->part == at->top + c->strip || at->part == c->rows) {
    at->part = at->top;
    if (++at->block == blocks) {
      at->block = 0;
      at->part = at->top += c->strip;
      if (at->top >= c->rows) {
        at->part = at->top = 0;
        ++at->image;
      }
    }
  }
  GB(find_pixels)(c, at);
}

/* The mask of the channels of a block that exist; NULL if all do. */
GK_INLINE const int32_t *GB(lanes_of)(const gb_call *c, ptrdiff_t block) {
  return (block + 1) * GB_V > c->out.channels ? c->lanes : NULL;
}

GK_INLINE float *GB(at)(const gb_image *image, const GB(place) *p) {
  return image->data + p->image * image->image + p->block * image->plane + p->row * image->row +
         p->first * image->pixel;
}

/* The store step whose tensor contains a block of channels. */
GK_INLINE const gb_call *GB(store_of)(const gb_call *c, ptrdiff_t block) {
  const gb_call *store = c + 1;
  while (store->maker != c || block < store->first || block >= store->first + store->in.blocks)
    ++store;
  return store;
}

/* The place of the packed weights for a block of output channels, one element of the kernel and one
 * input channel. There are `all` pairs of kernel elements and input channels. The weights of two
 * blocks are next to each other, as tiles read them. */
GK_INLINE float *GB(packed)(float *to, ptrdiff_t block, ptrdiff_t blocks, ptrdiff_t all,
                            ptrdiff_t number) {
  const ptrdiff_t pair = block / 2 * 2, side_by_side = pair + 1 < blocks ? 2 : 1;
  return to + (pair * all + number * side_by_side + block - pair) * GB_V;
}

/* How many blocks of input channels are processed at once: as many as have weights that stay in the
 * first-level cache for all pixels of a strip. For larger kernels it is four times as many, with
 * weights in the second-level cache: with fewer channels at once, sums would be written and read
 * again too often. */
GK_INLINE ptrdiff_t GB(blocks_at_once)(const gb_step *s, ptrdiff_t blocks) {
  const ptrdiff_t taps = s->kernel[0] * s->kernel[1],
                  size = 2 * taps * GB_V * GB_V * (ptrdiff_t)sizeof(float);
  const ptrdiff_t near = taps > 1 ? (ptrdiff_t)GB_NEAR * 4 : GB_NEAR;
  const ptrdiff_t most = near > size ? near / size : 1, times = (blocks + most - 1) / most;
  return (blocks + times - 1) / times;
}

/* Computes the sums of a part over all input channels. */
void GB(convolve_directly)(const gb_call *c, const GB(place) *at);
