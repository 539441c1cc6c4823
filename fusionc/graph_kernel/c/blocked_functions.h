/* The functions of steps for one width of vectors, which several texts define. */
gb_task GB(load_rows), GB(store_rows), GB(convolve), GB(transposed), GB(pool), GB(global_average), GB(elementwise), GB(resize);
gb_task GB(normalize), GB(clear), GB(pick), GB(rotate), GB(flatten), GB(by_lane), GB(winograd), GB(strassen), GB(attend);
void GB(pack)(const float *w, float *to, const gb_step *, ptrdiff_t in, ptrdiff_t out, ptrdiff_t block);
void GB(pack_by_lane)(const float *w, float *to, const gb_step *, ptrdiff_t in, ptrdiff_t out);
void GB(pack_transposed)(const float *w, float *to, const gb_step *, ptrdiff_t in, ptrdiff_t out);
void GB(transform_weights)(const float *packed, float *to, ptrdiff_t in_blocks, ptrdiff_t out_blocks, int tile_points);
ptrdiff_t GB(tiles_at_once)(ptrdiff_t channels, int tile_points);
ptrdiff_t GB(winograd_floats)(ptrdiff_t channels, int tile_points);
ptrdiff_t GB(pairs_at_once)(ptrdiff_t channels);
ptrdiff_t GB(strassen_floats)(ptrdiff_t channels);
ptrdiff_t GB(attention_floats)(ptrdiff_t keys, ptrdiff_t channels, ptrdiff_t queries);
int GB(add_quarters)(const float *packed, float *to, ptrdiff_t in);
