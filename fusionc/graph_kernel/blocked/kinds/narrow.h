/* Conversion of images from float32 to bfloat16. A unit (the smallest part of the work) is a row,
 * or some pixels, of a block of the result. */
#ifdef GB_V
#if GB_V == 16
static void gb_narrow_pixels(const gb_call *c, const GB(place) *p) {
  const ptrdiff_t left = c->out.channels - p->block * GB_PAIR;
  const gb_narrow_pixel lanes = gb_narrow_lanes(left);
  const float *x = c->in.data + p->image * c->in.image + 2 * p->block * c->in.plane +
                   p->row * c->in.row + p->first * GB_V;
  float *y = GB(at)(&c->out, p);
  for (ptrdiff_t k = 0; k < p->count * GB_V; k += GB_V) {
    const GB(vec) high = left > GB_V ? GB(load)(x + c->in.plane + k) : (GB(vec)){0};
    *(gb_narrow_pixel *)(y + k) = gb_narrowed_pair(GB(load)(x + k), high) & lanes;
  }
}

void GB(narrow)(const gb_call *c, ptrdiff_t unit, ptrdiff_t end, float *scratch) {
  (void)scratch;
  for (GB(place) p = GB(place_of)(c, unit, c->out.blocks); unit < end;
       ++unit, GB(advance)(c, &p, c->out.blocks))
    gb_narrow_pixels(c, &p);
}
#endif
#endif
