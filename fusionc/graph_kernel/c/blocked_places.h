/* The places of the units of steps (the smallest parts of their work): in images, and in packed
 * weights. */

/* The place of a unit. A unit is some pixels of one row (or of any rows, if rows have no gaps
 * between them), for one block or one pair of blocks of channels, in one image. `top` is the first
 * part of the current strip (the parts that are computed for all blocks before the next parts
 * are). */
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

/* The mask of those channels of a block that exist. NULL if all exist. */
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

/* The place of the packed weights for a block of output channels, one kernel element and one input
 * channel. `all` is the number of pairs of kernel elements and input channels. The weights of two
 * blocks are next to each other, as tiles read them. */
GK_INLINE float *GB(packed)(float *to, ptrdiff_t block, ptrdiff_t blocks, ptrdiff_t all,
                            ptrdiff_t number) {
  const ptrdiff_t pair = block / 2 * 2, side_by_side = pair + 1 < blocks ? 2 : 1;
  return to + (pair * all + number * side_by_side + block - pair) * GB_V;
}

/* How many blocks of input channels are processed at once: as many as have weights that stay in the
 * first-level cache for all pixels of a strip. For larger kernels, four times as many, with weights
 * in the second-level cache: with fewer channels at once, sums would be written and read again too
 * often. */
GK_INLINE ptrdiff_t GB(blocks_at_once)(const gb_step *s, ptrdiff_t blocks) {
  const ptrdiff_t taps = s->kernel[0] * s->kernel[1],
                  size = 2 * taps * GB_V * GB_V * (ptrdiff_t)sizeof(float);
  const ptrdiff_t near = taps > 1 ? (ptrdiff_t)GB_NEAR * 4 : GB_NEAR;
  const ptrdiff_t most = near > size ? near / size : 1, times = (blocks + most - 1) / most;
  return (blocks + times - 1) / times;
}

/* The smallest and the largest number that a task makes, for each lane. */
typedef struct {
  GB(vec) least, largest;
} GB(range);

GK_INLINE GB(range) GB(no_range)(void) {
  return (GB(range)){GB(all)(__builtin_inff()), GB(all)(-__builtin_inff())};
}

/* Extends a range by the pixels of a block. NaN is ignored, because for NaN the comparison returns
 * its second operand. `lanes` masks the channels of the last block. */
GK_INLINE void GB(stretch)(GB(range) *range, const float *x, ptrdiff_t count,
                           const int32_t *lanes) {
  GB(vec) least[4], largest[4];
  const GB(range) none = GB(no_range)();
  for (int n = 0; n < 4; ++n) {
    least[n] = none.least;
    largest[n] = none.largest;
  }
  ptrdiff_t k = 0;
  for (; k + 4 <= count; k += 4, x += 4 * GB_V)
    _Pragma("GCC unroll 4") for (int n = 0; n < 4; ++n) {
      least[n] = GB_MIN(GB(load)(x + n * GB_V), least[n]);
      largest[n] = GB_MAX(GB(load)(x + n * GB_V), largest[n]);
    }
  for (; k < count; ++k, x += GB_V) {
    least[0] = GB_MIN(GB(load)(x), least[0]);
    largest[0] = GB_MAX(GB(load)(x), largest[0]);
  }
  least[0] = GB_MIN(GB_MIN(least[0], least[1]), GB_MIN(least[2], least[3]));
  largest[0] = GB_MAX(GB_MAX(largest[0], largest[1]), GB_MAX(largest[2], largest[3]));
  if (lanes) {
    const GB(bits) own = *(const GB(bits) *)lanes;
    least[0] = (GB(vec))(((GB(bits))least[0] & own) | ((GB(bits))none.least & ~own));
    largest[0] = (GB(vec))(((GB(bits))largest[0] & own) | ((GB(bits))none.largest & ~own));
  }
  range->least = GB_MIN(least[0], range->least);
  range->largest = GB_MAX(largest[0], range->largest);
}

/* Writes the range of the task that begins with this unit, if a later step reads the range. */
GK_INLINE void GB(keep_range)(const gb_call *c, ptrdiff_t unit, const GB(range) *range) {
  if (!c->ranges) return;
  *(GB(vec) *)(c->ranges + 2 * unit * GB_V) = range->least;
  *(GB(vec) *)(c->ranges + 2 * unit * GB_V + GB_V) = range->largest;
}

/* Computes the sums of a part over all input channels. */
void GB(convolve_directly)(const gb_call *c, const GB(place) *at);
