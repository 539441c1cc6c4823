/* Products of pixels and a matrix with Strassen's algorithm. The pixels, the input channels and the
 * output channels are divided into halves, and 7 products of quarters are computed instead of 8.
 * See V. Strassen, Gaussian Elimination is not Optimal, 1969.
 *
 * Any halves can be chosen. Here, they are the halves of a chunk of pixels, of all blocks of input
 * channels, and of a group of four blocks of output channels.
 *
 * The sums of quarters add different pixels, so that small pixels would lose digits next to large
 * ones. Therefore each pixel is first scaled by a power of two that makes the sum of its magnitudes
 * about 1. (A pixel of zeros is not changed.) The sums also add different columns of the matrix. If
 * the magnitudes of columns differ too much, or if a number is not finite and would reach other
 * pixels, the product is computed directly. */
#define GB_MOST_PAIRS (8 * GB_TILE) /* the most pairs of pixels in a chunk */

/* For each product: `matrix` is the quarter of the matrix that is its factor, or -1 for the next
 * sum of quarters. `to` and `also_to` (-1: none) are the quarters of the result to which the
 * product is added; if `sign` is -1, it is subtracted. Quarters 0 and 1 are the upper ones, and 2
 * and 3 are the lower ones. `add_pixels` makes the factors from pixels, and `add_quarters` makes
 * the sums of quarters. */
static const struct {
  int matrix, to, also_to, sign;
} GB(products)[GB_SEVEN] = {{-1, 0, 3, 1},  {-1, 1, 3, 1}, {-1, 0, 2, 1}, {-1, 3, -1, 1},
                            {-1, 0, -1, 1}, {0, 2, 3, -1}, {3, 1, 0, -1}};

/* The scratch memory of a thread. `apart` is the distance between blocks of channels, an odd number
 * of pixels: at a distance of whole pages, blocks would share the same few sets of a cache. */
typedef struct {
  gb_chunk *kept;
  float *factors;             /* sums of quarters of the pixels of a chunk, for each product */
  float *made, *sums;         /* the results of one product; the sums of a group */
  float *scale, *unscale;     /* the power of two for each pixel, and its inverse */
  ptrdiff_t *out_at, *in2_at; /* the place of each pixel */
  ptrdiff_t apart, each;      /* each: the floats of the factors of one product */
} GB(strassen_work);

ptrdiff_t GB(pairs_at_once)(ptrdiff_t channels) {
  const ptrdiff_t fit = (4 << 20) / (GB_SEVEN * 2 * channels);
  return fit < GB_TILE ? GB_TILE : fit > GB_MOST_PAIRS ? GB_MOST_PAIRS : fit;
}

/* Divides the scratch memory. It must be large enough, and aligned to vectors. */
static GB(strassen_work) GB(work_in)(float *scratch, ptrdiff_t channels) {
  const ptrdiff_t most = GB(pairs_at_once)(channels) | 1;
  GB(strassen_work) k = {
      .kept = (gb_chunk *)(void *)scratch, .factors = scratch + GB_CHUNK, .apart = most * GB_V};
  k.each = channels / (2 * GB_V) * k.apart;
  k.made = k.factors + GB_SEVEN * k.each;
  k.sums = k.made + 2 * k.apart;
  k.out_at = (ptrdiff_t *)(void *)(k.sums + 2 * GB_GROUP * k.apart);
  k.in2_at = k.out_at + 2 * most;
  k.scale = (float *)(void *)(k.in2_at + 2 * most);
  k.unscale = k.scale + 2 * most;
  return k;
}

/* The floats of scratch memory that a thread needs. */
ptrdiff_t GB(strassen_floats)(ptrdiff_t channels) {
  const ptrdiff_t most = GB(pairs_at_once)(channels) | 1,
                  blocks = GB_SEVEN * channels / (2 * GB_V) + 2 + 2 * GB_GROUP;
  return GB_CHUNK + blocks * most * GB_V +
         2 * most * (ptrdiff_t)(2 * sizeof(ptrdiff_t) / sizeof(float) + 2);
}

/* Whether the columns of a group of packed weights are all finite, not zero, and of similar
 * magnitude. They are if the sums of their magnitudes are similar, and their largest magnitudes
 * are: a sparse column has a small sum even if its largest number is as large as in other
 * columns. */
static int GB(is_even)(const float *w, ptrdiff_t in) {
  enum { BY_SUM = 8, BY_LARGEST = 64 };
  float most = 0.0f, least = INFINITY, most_sum = 0.0f, least_sum = INFINITY;
  for (ptrdiff_t o = 0; o < GB_GROUP * GB_V; ++o) {
    const float *column = w + o / (2 * GB_V) * in * 2 * GB_V + o % (2 * GB_V);
    float largest = 0.0f, sum = 0.0f;
    for (ptrdiff_t i = 0; i < in; ++i) {
      const float size = fabsf(column[i * 2 * GB_V]);
      if (!(size < INFINITY)) return 0;
      if (size > largest) largest = size;
      sum += size;
    }
    if (largest > most) most = largest;
    if (largest < least) least = largest;
    if (sum > most_sum) most_sum = sum;
    if (sum < least_sum) least_sum = sum;
  }
  return least > 0x1p-100f && most < 0x1p100f && most <= BY_LARGEST * least &&
         most_sum <= BY_SUM * least_sum;
}

/* Writes the sums of quarters of a group of packed weights. Returns whether the columns are even,
 * that is, of similar magnitude. */
int GB(add_quarters)(const float *w, float *to, ptrdiff_t in) {
  const ptrdiff_t below = in * GB_V, beside = 2 * below;
  for (ptrdiff_t i = 0; i < below; i += GB_V, to += GB_V) {
    const GB(vec) q0 = GB(load)(w + i), q1 = GB(load)(w + beside + i);
    const GB(vec) q2 = GB(load)(w + below + i), q3 = GB(load)(w + below + beside + i);
    *(GB(vec) *)to = q0 + q3;
    *(GB(vec) *)(to + below) = q1 - q3;
    *(GB(vec) *)(to + 2 * below) = q2 - q0;
    *(GB(vec) *)(to + 3 * below) = q0 + q1;
    *(GB(vec) *)(to + 4 * below) = q2 + q3;
  }
  return GB(is_even)(w, in);
}

GK_INLINE ptrdiff_t GB(offset_of)(const gb_image *image, ptrdiff_t width, ptrdiff_t pixel) {
  return pixel / width * image->row + pixel % width * image->pixel;
}

/* Finds the power of two that makes the sum of a pixel's magnitudes about 1; and the inverse of
 * this power, by which results are multiplied. Returns whether the sum of magnitudes is finite. */
GK_INLINE int GB(scale_pixel)(const gb_call *c, const float *x, float *scale, float *unscale) {
  GB(vec) sums[2] = {{0}, {0}};
  for (ptrdiff_t b = 0; b < c->in.blocks; b += 2)
    for (int k = 0; k < 2; ++k)
      sums[k] += (GB(vec))((GB(bits))GB(load_loose)(x + (b + k) * c->in.plane) & 0x7fffffff);
  float found[GB_V] __attribute__((aligned(4 * GB_V))), sum = 0.0f;
  *(GB(vec) *)found = sums[0] + sums[1];
  for (int v = 0; v < GB_V; ++v) sum += found[v];
  if (!(sum < INFINITY)) return 0;
  int32_t bits;
  memcpy(&bits, &sum, sizeof bits);
  int exponent = (bits >> 23) - 127;
  exponent = exponent < -126 ? -126 : exponent > 126 ? 126 : exponent;
  const int32_t up = (127 + exponent) << 23, down = (127 - exponent) << 23;
  memcpy(scale, &down, sizeof down);
  memcpy(unscale, &up, sizeof up);
  if (!bits) *unscale = 0.0f;
  return 1;
}

/* Computes the factors of a chunk of n pixels from `first` on. Returns whether all their sums are
 * finite. */
static int GB(add_pixels)(const gb_call *c, const GB(strassen_work) *k, ptrdiff_t image,
                          ptrdiff_t first, ptrdiff_t n) {
  const ptrdiff_t half = c->in.blocks / 2, pairs = (n + 1) / 2, right = half * c->in.plane,
                  width = c->out.width;
  const float *x = c->in.data + image * c->in.image;
  for (ptrdiff_t p = 0; p < pairs; ++p) {
    const int has_lower = pairs + p < n;
    const float *upper = x + GB(offset_of)(&c->in, width, first + p);
    const float *lower = has_lower ? x + GB(offset_of)(&c->in, width, first + pairs + p) : upper;
    for (int is_lower = 0; is_lower <= has_lower; ++is_lower) {
      const ptrdiff_t pixel = is_lower * pairs + p;
      if (!GB(scale_pixel)(c, is_lower ? lower : upper, &k->scale[pixel], &k->unscale[pixel]))
        return 0;
      k->out_at[pixel] = GB(offset_of)(&c->out, width, first + pixel);
      if (c->in2.data) k->in2_at[pixel] = GB(offset_of)(&c->in2, width, first + pixel);
    }
    const GB(vec) scale = GB(all)(k->scale[p]),
                  scale2 = has_lower ? GB(all)(k->scale[pairs + p]) : (GB(vec)){0};
    float *to = k->factors + p * GB_V;
    for (ptrdiff_t b = 0; b < half;
         ++b, to += k->apart, upper += c->in.plane, lower += c->in.plane) {
      const GB(vec) q0 = GB(load_loose)(upper) * scale, q1 = GB(load_loose)(upper + right) * scale;
      const GB(vec) q2 = GB(load_loose)(lower) * scale2,
                    q3 = GB(load_loose)(lower + right) * scale2;
      *(GB(vec) *)to = q0 + q3;
      *(GB(vec) *)(to + k->each) = q0;
      *(GB(vec) *)(to + 2 * k->each) = q3;
      *(GB(vec) *)(to + 3 * k->each) = q2 - q0;
      *(GB(vec) *)(to + 4 * k->each) = q1 - q3;
      *(GB(vec) *)(to + 5 * k->each) = q2 + q3;
      *(GB(vec) *)(to + 6 * k->each) = q0 + q1;
    }
  }
  return 1;
}

/* Adds the results of a product to a quarter of the sums. If the quarter is still empty, copies
 * them. */
GK_INLINE void GB(add_made)(const float *made, float *sums, ptrdiff_t apart, ptrdiff_t pairs,
                            int sign, int is_begun) {
  for (int b = 0; b < 2; ++b, made += apart, sums += apart)
    for (ptrdiff_t p = 0; p < pairs * GB_V; p += GB_V) {
      const GB(vec) m = GB(load)(made + p);
      *(GB(vec) *)(sums + p) = !is_begun  ? m
                               : sign > 0 ? GB(load)(sums + p) + m
                                          : GB(load)(sums + p) - m;
    }
}

/* Computes the sums of a group, for pairs of pixels, from the group's weights and the sums of
 * quarters of these weights. */
static void GB(multiply_quarters)(const gb_call *c, const GB(strassen_work) *k, const float *w,
                                  const float *sum, ptrdiff_t pairs) {
  const ptrdiff_t half = c->in.blocks / 2, at_once = GB(blocks_at_once)(c->step, half),
                  row = GB_V * 2 * GB_V;
  const ptrdiff_t below = half * row, tiles = (pairs + GB_TILE - 1) / GB_TILE;
  enum { FEW_TILES = 5 };
  int is_begun[GB_QUARTERS] = {0};
  for (int n = 0; n < GB_SEVEN; ++n) {
    const int q = GB(products)[n].matrix, to = GB(products)[n].to,
              also_to = GB(products)[n].also_to;
    const float *matrix = q < 0 ? sum : w + q / 2 * below + q % 2 * 2 * below;
    if (q < 0) sum += below;
    const int q2 = n + 1 < GB_SEVEN ? GB(products)[n + 1].matrix : -1;
    const float *next = q2 < 0 ? sum : w + q2 / 2 * below + q2 % 2 * 2 * below;
    for (ptrdiff_t b = 0; b < half; b += at_once) {
      GB(tile) t = {
          .x = k->factors + n * k->each + b * k->apart,
          .x_pixel = GB_V,
          .x_block = k->apart,
          .w = matrix + b * row,
          .ahead = b + at_once < half ? matrix + (b + at_once) * row : next,
          /* so that all tiles together prefetch about one matrix */
          .ahead_step = tiles > FEW_TILES ? GB_LINE : 2 * GB_LINE,
          .blocks = half - b < at_once ? half - b : at_once,
          .last = GB_V,
          .rows = 1,
          .columns = 1,
          .is_begun = b > 0 || also_to < 0,
          .y = also_to < 0 ? k->sums + 2 * to * k->apart : k->made,
          .y_pixel = GB_V,
          .y_block = k->apart,
      };
      GB(pixels)(&t, pairs, GB(near_tiles)[1], 2);
    }
    if (also_to < 0) continue;
    GB(add_made)(k->made, k->sums + 2 * to * k->apart, k->apart, pairs, 1, is_begun[to]);
    GB(add_made)(k->made, k->sums + 2 * also_to * k->apart, k->apart, pairs, GB(products)[n].sign,
                 is_begun[also_to]);
    is_begun[to] = is_begun[also_to] = 1;
  }
}

/* Converts the sums of a group to results, for one half of a chunk: n pixels from pixel `p` on. */
static void GB(store_half)(const gb_call *c, const GB(strassen_work) *k, float *sums,
                           ptrdiff_t image, ptrdiff_t first, ptrdiff_t block, ptrdiff_t p,
                           ptrdiff_t n) {
  const gb_step *s = c->step;
  const float *residual =
      c->in2.data ? c->in2.data + image * c->in2.image + block * c->in2.plane : NULL;
  const int is_long = !GB(is_finished)(s);
  const GB(tile) t = {.step = s};
  float *y[GB_GROUP];
  ptrdiff_t y_pixel[GB_GROUP];
  GB(vec) start[GB_GROUP];
  for (int b = 0; b < GB_GROUP; ++b) {
    const gb_call *store = c->is_stored ? GB(store_of)(c, block + b) : NULL;
    y[b] = c->out.data + image * c->out.image + (block + b) * c->out.plane;
    if (store) y[b] = store->tensor + (block + b - store->first) * GB_V;
    y_pixel[b] = store ? store->in.channels : 0;
    start[b] = c->bias ? GB(load)(c->bias + (block + b) * GB_V) : (GB(vec)){0};
  }
  for (int is_again = 0; is_again <= is_long; ++is_again) {
    for (ptrdiff_t i = 0; i < n; ++i) {
      const float *added = residual ? residual + k->in2_at[p + i] : NULL;
      const GB(vec) unscale = GB(all)(k->unscale[p + i]);
      for (int b = 0; b < GB_GROUP; ++b) {
        float *made = sums + b * k->apart + i * GB_V,
              *to = y[b] + (y_pixel[b] ? (first + p + i) * y_pixel[b] : k->out_at[p + i]);
        GB(vec) sum = GB(load)(made);
        if (!is_again) sum = GB_MADD(sum, unscale, start[b]);
        if (!is_long) {
          GB(finish)(&t, &sum, to, added ? added + b * c->in2.plane : NULL, NULL, 1);
          continue;
        }
        if (added && s->after == is_again) sum += GB(load_loose)(added + b * c->in2.plane);
        *(GB(loose) *)(is_again ? to : made) = (GB(loose))sum;
      }
    }
    for (int b = 0; is_long && !is_again && b < GB_GROUP; ++b)
      GB(activate)(sums + b * k->apart, n * GB_V, s);
  }
}

/* Computes a group of output channels directly, without Strassen's algorithm. */
static void GB(convolve_group)(const gb_call *c, ptrdiff_t image, ptrdiff_t first, ptrdiff_t n,
                               ptrdiff_t group) {
  const ptrdiff_t width = c->is_flat ? c->out.height * c->out.width : c->out.width;
  for (GB(place) at = {.row = first / width, .first = first % width, .image = image}; n > 0;
       n -= at.count) {
    at.count = width - at.first < n ? width - at.first : n;
    if (at.count > GB_MOST_PAIRS) at.count = GB_MOST_PAIRS;
    for (at.block = GB_GROUP / 2 * group;
         at.block < GB_GROUP / 2 * (group + 1) && 2 * at.block < c->out.blocks; ++at.block)
      GB(convolve_directly)(c, &at);
    at.first += at.count;
    if (at.first == width) at.first = 0, ++at.row;
  }
}

/* Computes units. A unit is a chunk of pixels (an image has c->rows chunks), and a part of the
 * groups of output channels (there are c->strip parts). */
void GB(strassen)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const ptrdiff_t whole = c->out.channels / (GB_GROUP * GB_V),
                  groups = (c->out.blocks + GB_GROUP - 1) / GB_GROUP;
  const ptrdiff_t in = c->in.channels, size = GB_GROUP * GB_V * in,
                  pixels = c->out.height * c->out.width;
  const GB(strassen_work) k = GB(work_in)(scratch, in);
  for (; unit < end; ++unit) {
    const ptrdiff_t chunk = unit / c->strip, part = unit % c->strip, image = chunk / c->rows,
                    number = chunk % c->rows;
    const ptrdiff_t first = pixels * number / c->rows, n = pixels * (number + 1) / c->rows - first,
                    pairs = (n + 1) / 2;
    if (k.kept->chunk != chunk) k.kept->is_finite = GB(add_pixels)(c, &k, image, first, n);
    k.kept->chunk = chunk;
    for (ptrdiff_t g = groups * part / c->strip; g < groups * (part + 1) / c->strip; ++g) {
      if (g >= whole || !k.kept->is_finite || !c->even || !c->even[g]) {
        GB(convolve_group)(c, image, first, n, g);
        continue;
      }
      GB(multiply_quarters)(c, &k, c->weights + g * size,
                            c->derived + g * size / GB_QUARTERS * GB_SUMS, pairs);
      GB(store_half)(c, &k, k.sums, image, first, GB_GROUP * g, 0, pairs);
      GB(store_half)(c, &k, k.sums + GB_GROUP * k.apart, image, first, GB_GROUP * g, pairs,
                     n - pairs);
    }
  }
}
