/* What is not a convolution: pools, sums and products, activations, the way into the layout and out of it. Units are
 * rows of blocks, or any pixels of them. */
void GB(load_rows)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_image *to = &c->out;
  const ptrdiff_t own = to->is_planar ? 1 : GB_V, plane = to->height * to->width;
  (void)scratch;
  for (GB(place) p = GB(place_of)(c, unit, to->blocks); unit < end; ++unit, GB(advance)(c, &p, to->blocks)) {
    const ptrdiff_t left = to->channels - p.block * own, channels = left < own ? left : own;
    float *y = GB(at)(to, &p);
    if (c->step->flag) {
      const float *row = c->tensor + ((p.image * to->height + p.row) * to->width + p.first) * to->channels + p.block * own;
      for (ptrdiff_t x = 0; x < p.count; ++x, row += to->channels)
        for (ptrdiff_t v = 0; v < GB_V; ++v) y[x * GB_V + v] = v < channels ? row[v] : 0.0f;
      continue;
    }
    const float *from = c->tensor + ((p.image * to->channels + p.block * own) * to->height + p.row) * to->width;
    if (to->is_planar) {
      memcpy(y, from, (size_t)p.count * sizeof *y);
      continue;
    }
    ptrdiff_t x = 0;
    for (; x + 4 <= p.count && channels == GB_V; x += 4)
      for (ptrdiff_t v = 0; v < GB_V; v += 4) gb_transpose(from + v * plane + x, plane, y + x * GB_V + v, GB_V);
    for (; x < p.count; ++x)
      for (ptrdiff_t v = 0; v < GB_V; ++v) y[x * GB_V + v] = v < channels ? from[v * plane + x] : 0.0f;
  }
}

void GB(store_rows)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_image *in = &c->in;
  const ptrdiff_t plane = in->height * in->width;
  (void)scratch;
  for (GB(place) p = GB(place_of)(c, unit, in->blocks); unit < end; ++unit, GB(advance)(c, &p, in->blocks)) {
    const ptrdiff_t channels = in->channels - p.block * GB_V < GB_V ? in->channels - p.block * GB_V : GB_V;
    const float *x = GB(at)(in, &p);
    if (c->step->flag) {
      float *row = c->tensor + ((p.image * in->height + p.row) * in->width + p.first) * in->channels + p.block * GB_V;
      for (ptrdiff_t i = 0; i < p.count; ++i, row += in->channels)
        for (ptrdiff_t v = 0; v < channels; ++v) row[v] = x[i * GB_V + v];
      continue;
    }
    float *to = c->tensor + ((p.image * in->channels + p.block * GB_V) * in->height + p.row) * in->width;
    ptrdiff_t k = 0;
    for (; k + 4 <= p.count && channels == GB_V; k += 4)
      for (ptrdiff_t v = 0; v < GB_V; v += 4) gb_transpose(x + k * GB_V + v, GB_V, to + v * plane + k, plane);
    for (ptrdiff_t v = 0; v < channels; ++v)
      for (ptrdiff_t i = k; i < p.count; ++i) to[v * plane + i] = x[i * GB_V + v];
  }
}

void GB(elementwise)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_step *s = c->step;
  (void)scratch;
  for (GB(place) p = GB(place_of)(c, unit, c->out.blocks); unit < end; ++unit, GB(advance)(c, &p, c->out.blocks)) {
    const ptrdiff_t n = p.count * GB_V;
    const float *a = GB(at)(&c->in, &p), *b = NULL;
    float *y = GB(at)(&c->out, &p);
    if (s->op == GB_SCALE) b = c->in2.data + p.image * c->in2.image + p.block * c->in2.plane;
    else if (c->in2.data) b = GB(at)(&c->in2, &p);
    if (s->op == GB_ADD)
      for (ptrdiff_t i = 0; i < n; i += GB_V) *(GB(vec) *)(y + i) = GB(load)(a + i) + GB(load)(b + i);
    else if (s->op == GB_MUL)
      for (ptrdiff_t i = 0; i < n; i += GB_V) *(GB(vec) *)(y + i) = GB(load)(a + i) * GB(load)(b + i);
    else if (s->op == GB_SCALE)
      for (ptrdiff_t i = 0; i < n; i += GB_V) *(GB(vec) *)(y + i) = GB(load)(a + i) * GB(load)(b);
    else if (y != a)
      memcpy(y, a, (size_t)n * sizeof *y);
    GB(activate)(y, n, s);
  }
}

/* Each pixel is that of the smaller image where it comes from. */
void GB(resize)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  (void)scratch;
  for (GB(place) p = GB(place_of)(c, unit, c->out.blocks); unit < end; ++unit, GB(advance)(c, &p, c->out.blocks)) {
    GB(place) source = p;
    source.row = p.row / c->step->stride[0];
    const float *x = GB(at)(&c->in, &source);
    float *y = GB(at)(&c->out, &p);
    for (ptrdiff_t k = 0; k < p.count; ++k)
      *(GB(vec) *)(y + k * GB_V) = GB(load)(x + k / c->step->stride[1] * GB_V);
    GB(activate)(y, p.count * GB_V, c->step);
  }
}

GK_INLINE float GB(total)(GB(vec) x) {
  float sum = 0.0f;
  for (int v = 0; v < GB_V; ++v) sum += x[v];
  return sum;
}

void GB(pool)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  const gb_step *s = c->step;
  const int is_largest = s->op == GB_MAX_POOL;
  const int is_picked = is_largest && s->kernel[0] * s->kernel[1] == 1 && !(s->pads[0] | s->pads[1] | s->pads[2] | s->pads[3]);
  (void)scratch;
  for (GB(place) p = GB(place_of)(c, unit, c->out.blocks); unit < end; ++unit, GB(advance)(c, &p, c->out.blocks)) {
    const float *image = c->in.data + p.image * c->in.image + p.block * c->in.plane;
    float *y = GB(at)(&c->out, &p);
    const ptrdiff_t top = p.row * s->stride[0] - s->pads[0], bottom = top + s->kernel[0];
    const ptrdiff_t first = top < 0 ? 0 : top, last = bottom > c->in.height ? c->in.height : bottom;
    if (is_picked) {
      const float *x = image + top * c->in.row;
      for (ptrdiff_t k = 0; k < p.count; ++k) *(GB(vec) *)(y + k * GB_V) = GB(load)(x + k * s->stride[1] * GB_V);
    }
    for (ptrdiff_t k = is_picked ? p.count : 0; k < p.count; ++k) {
      const ptrdiff_t left = k * s->stride[1] - s->pads[1], right = left + s->kernel[1];
      const ptrdiff_t from = left < 0 ? 0 : left, to = right > c->in.width ? c->in.width : right;
      GB(vec) found = GB(all)(is_largest ? -INFINITY : 0.0f);
      for (ptrdiff_t i = first; i < last; ++i)
        for (ptrdiff_t j = from; j < to; ++j) {
          const GB(vec) x = GB(load)(image + i * c->in.row + j * GB_V);
          found = is_largest ? GB_MAX(found, x) : found + x; /* of NaN mostly as onnxruntime: the last one decides */
        }
      if (!is_largest) {
        ptrdiff_t high = last - first, wide = to - from;
        if (s->flag) { /* zeros count, but none beyond them */
          const ptrdiff_t below = c->in.height + s->pads[2], behind = c->in.width + s->pads[3];
          high = (bottom < below ? bottom : below) - top;
          wide = (right < behind ? right : behind) - left;
        }
        found /= (float)(high * wide);
      }
      *(GB(vec) *)(y + k * GB_V) = found;
    }
    GB(activate)(y, p.count * GB_V, s);
  }
}

/* All channels of R pixels side by side, so many that whole cache lines are read. Channels that are not there are left
 * out: an activation may have made them what it makes of zero. Of a root mean square norm the mean counts as zero. */
GK_INLINE void GB(normalize_pixels)(const gb_call *c, const float *x, float *y, const int R) {
  const float count = (float)c->in.channels;
  const ptrdiff_t last = c->in.blocks - 1;
  const GB(bits) lanes = *(const GB(bits) *)c->lanes;
  GB(vec) sums[8] = {0}, squares[8] = {0};
  if (c->step->op == GB_LAYER_NORM) {
    for (ptrdiff_t b = 0; b < last; ++b)
      GB_FOR_PIXELS(r) sums[r] += GB(load)(x + b * c->in.plane + r * GB_V);
    GB_FOR_PIXELS(r) sums[r] += (GB(vec))((GB(bits))GB(load)(x + last * c->in.plane + r * GB_V) & lanes);
    GB_FOR_PIXELS(r) sums[r] = GB(all)(GB(total)(sums[r]) / count); /* the means */
  }
  for (ptrdiff_t b = 0; b < last; ++b)
    GB_FOR_PIXELS(r) {
      const GB(vec) d = GB(load)(x + b * c->in.plane + r * GB_V) - sums[r];
      squares[r] = GB_MADD(d, d, squares[r]);
    }
  GB_FOR_PIXELS(r) {
    const GB(vec) d = (GB(vec))((GB(bits))(GB(load)(x + last * c->in.plane + r * GB_V) - sums[r]) & lanes);
    squares[r] = GB(all)(1.0f / sqrtf(GB(total)(GB_MADD(d, d, squares[r])) / count + c->step->epsilon));
  }
  for (ptrdiff_t b = 0; b <= last; ++b) {
    const GB(vec) factor = c->weights ? GB(load)(c->weights + b * GB_V) : GB(all)(1.0f);
    const GB(vec) bias = c->bias ? GB(load)(c->bias + b * GB_V) : (GB(vec)){0};
    GB_FOR_PIXELS(r) {
      const GB(vec) made = GB_MADD((GB(load)(x + b * c->in.plane + r * GB_V) - sums[r]) * squares[r], factor, bias);
      *(GB(vec) *)(y + b * c->out.plane + r * GB_V) = b < last ? made : (GB(vec))((GB(bits))made & lanes);
    }
  }
}

void GB(normalize)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  (void)scratch;
  for (GB(place) p = GB(place_of)(c, unit, 1); unit < end; ++unit, GB(advance)(c, &p, 1)) {
    const float *x = GB(at)(&c->in, &p);
    float *y = GB(at)(&c->out, &p);
    ptrdiff_t k = 0;
    for (; k + 8 <= p.count; k += 8) GB(normalize_pixels)(c, x + k * GB_V, y + k * GB_V, 8);
    for (; k < p.count; ++k) GB(normalize_pixels)(c, x + k * GB_V, y + k * GB_V, 1);
    for (ptrdiff_t b = 0; b < c->in.blocks; ++b) GB(activate)(y + b * c->out.plane, p.count * GB_V, c->step);
  }
}

/* Where the channels of a block come from. */
typedef struct {
  ptrdiff_t blocks[GB_V];            /* of the image, that some of them are in; `count` */
  GB(bits) lanes[GB_V], places[GB_V]; /* for each of these: in which lane a channel is, and whether this one takes it */
  GB(bits) kept;                     /* whether it stays what it is */
  int count;
} GB(picked);

static void GB(find_picked)(const gb_call *c, ptrdiff_t block, GB(picked) * from) {
  const gb_step *s = c->step;
  from->count = 0;
  for (int v = 0; v < GB_V; ++v) {
    const ptrdiff_t made = block * GB_V + v, turn = made - s->flag;
    from->kept[v] = turn < 0 ? -1 : 0;
    if (turn < 0 || made >= c->out.channels) continue;
    const ptrdiff_t channel = s->group == 1 ? turn : turn % s->group * (c->in.channels / s->group) + turn / s->group;
    int k = 0;
    while (k < from->count && from->blocks[k] != channel / GB_V) ++k;
    if (k == from->count) {
      from->blocks[from->count++] = channel / GB_V;
      from->lanes[k] = from->places[k] = (GB(bits)){0};
    }
    from->lanes[k][v] = (int32_t)(channel % GB_V);
    from->places[k][v] = -1;
  }
}

/* Each channel is one of the image's, those of each group in turn. Channels in front of them stay what they are; lanes behind
 * the last one are zero, or what an activation makes of it. */
void GB(pick)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  (void)scratch;
  GB(picked) from;
  ptrdiff_t former = -1;
  for (GB(place) p = GB(place_of)(c, unit, c->out.blocks); unit < end; ++unit, GB(advance)(c, &p, c->out.blocks)) {
    if (p.block != former) GB(find_picked)(c, former = p.block, &from);
    GB(place) first = p;
    first.block = 0;
    const float *image = GB(at)(&c->in, &first);
    float *y = GB(at)(&c->out, &p);
    const ptrdiff_t n = p.count * GB_V;
    for (int k = 0; k < from.count; ++k) {
      const float *x = image + from.blocks[k] * c->in.plane;
      const GB(bits) lanes = from.lanes[k], places = from.places[k];
      const GB(bits) left = k ? ~(GB(bits)){0} : from.kept; /* what the first one leaves, the others keep */
      for (ptrdiff_t i = 0; i < n; i += GB_V) {
        const GB(bits) taken = (GB(bits))GB_PERMUTE(GB(load)(x + i), lanes) & places;
        *(GB(vec) *)(y + i) = (GB(vec))(taken | ((GB(bits))GB(load)(y + i) & left));
      }
    }
    GB(activate)(y, n, c->step);
  }
}

/* Units are blocks. */
void GB(global_average)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  (void)scratch;
  for (; unit < end; ++unit) {
    GB(place) p = {0, c->in.width, 0, unit % c->in.blocks, unit / c->in.blocks, 0, 0};
    float *y = GB(at)(&c->out, &p);
    GB(vec) sum = {0};
    for (p.row = 0; p.row < c->in.height; ++p.row) { /* sums of rows: their errors do not add up along the image */
      const float *x = GB(at)(&c->in, &p);
      GB(vec) even = {0}, odd = {0};
      ptrdiff_t k = 0;
      for (; k + 1 < p.count; k += 2) {
        even += GB(load)(x + k * GB_V);
        odd += GB(load)(x + k * GB_V + GB_V);
      }
      if (k < p.count) even += GB(load)(x + k * GB_V);
      sum += even + odd;
    }
    *(GB(vec) *)y = sum / (float)(c->in.height * c->in.width);
    GB(activate)(y, GB_V, c->step);
  }
}
