/* Picks channels of an image that are not adjacent. */
#ifdef GB_V
/* Where the channels of a block of the result come from. */
typedef struct {
  ptrdiff_t blocks[GB_V]; /* `count` blocks of the image that contain them */
  /* for each of these blocks: the lane of each channel, and whether the channel comes from the
   * block */
  GB(bits) lanes[GB_V], places[GB_V];
  GB(bits) kept; /* whether a channel of the result keeps its value */
  int count;
} GB(picked);

static void GB(find_picked)(const gb_call *c, ptrdiff_t block, GB(picked) *from) {
  const gb_step *s = c->step;
  from->count = 0;
  for (int v = 0; v < GB_V; ++v) {
    const ptrdiff_t made = block * GB_V + v, turn = made - s->kept + s->skipped;
    from->kept[v] = turn < 0 ? -1 : 0;
    if (turn < 0 || made >= c->out.channels) continue;
    const ptrdiff_t channel =
        s->groups == 1 ? turn : turn % s->groups * (c->in.channels / s->groups) + turn / s->groups;
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

/* Picks channels of the image: the first channel of each group, then the second channel of each
 * group, and so on. The first `kept` channels of the result keep their values. The lanes after the
 * last channel become zero, or the activation of zero. */
void GB(pick)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  (void)scratch;
  GB(picked) from;
  ptrdiff_t former = -1;
  for (GB(place) p = GB(place_of)(c, unit, c->out.blocks); unit < end;
       ++unit, GB(advance)(c, &p, c->out.blocks)) {
    if (p.block != former) GB(find_picked)(c, former = p.block, &from);
    GB(place) first = p;
    first.block = 0;
    const float *image = GB(at)(&c->in, &first);
    float *y = GB(at)(&c->out, &p);
    const ptrdiff_t n = p.count * GB_V;
    for (int k = 0; k < from.count; ++k) {
      const float *x = image + from.blocks[k] * c->in.plane;
      const GB(bits) lanes = from.lanes[k], places = from.places[k];
      /* The first block leaves only the kept channels as they are. Later blocks also leave those
       * that earlier blocks have picked. */
      const GB(bits) left = k ? ~(GB(bits)){0} : from.kept;
      for (ptrdiff_t i = 0; i < n; i += GB_V) {
        const GB(bits) taken = (GB(bits))GB_PERMUTE(GB(load)(x + i), lanes) & places;
        *(GB(vec) *)(y + i) = (GB(vec))(taken | ((GB(bits))GB(load)(y + i) & left));
      }
    }
    GB(activate)(y, n, c->step);
  }
}
#endif
