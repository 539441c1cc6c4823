/* The table of functions for one width of vectors. The lists of the kinds' functions in it are
 * generated. Functions that no program needs are not compiled. */
#if GB_HAS_STRASSEN
gb_task GB(strassen);
ptrdiff_t GB(pairs_at_once)(ptrdiff_t channels);
ptrdiff_t GB(strassen_floats)(ptrdiff_t channels);
int GB(add_quarters)(const float *packed, float *to, ptrdiff_t in);
#endif

static void GB(widen)(const uint16_t *from, float *to, ptrdiff_t n) {
  GB(widen_float16)(from, to, n);
}

static const gb_width GB(width_of) = {
    .vector = GB_V,
    .tile = GB_TILE,
    .widen = GB(widen),
    .tasks = {GB_TASKS_BY_KIND GB_IF_WIDEST(GB_WIDEST_TASKS_BY_KIND)},
    .packs = {GB_PACKS_BY_KIND GB_IF_WIDEST(GB_WIDEST_PACKS_BY_KIND)},
    .derives = {GB_DERIVES_BY_KIND GB_IF_WIDEST(GB_WIDEST_DERIVES_BY_KIND)},
    .scratches = {GB_SCRATCHES_BY_KIND GB_IF_WIDEST(GB_WIDEST_SCRATCHES_BY_KIND)},
#if GB_HAS_STRASSEN
    .strassen = GB(strassen),
    .pairs_at_once = GB(pairs_at_once),
    .strassen_floats = GB(strassen_floats),
    .add_quarters = GB(add_quarters),
#endif
};
