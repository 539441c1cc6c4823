/* How attention is cut into units. */

/* Queries of one head at once: so many that their scores stay in the cache of a core, and that all threads have some. */
static void gb_divide_attention(const gb_width *width, gb_call *c) {
  enum { GB_SCORES = 64 << 10 }; /* floats */
  const ptrdiff_t heads = c->queries ? c->out.width / c->queries * c->step->group : 0; /* of all batches */
  const ptrdiff_t fit = GB_SCORES / gb_rounded(c->keys + 1, width->vector), most = 8 * width->tile;
  c->part = fit > most ? most : fit < width->tile ? width->tile : fit;
  c->rows = (c->queries + c->part - 1) / c->part;
  if (heads && heads * c->rows < gb_threads()) c->rows = (gb_threads() + heads - 1) / heads;
  if (c->rows > c->queries) c->rows = c->queries;
  if (c->rows) {
    c->part = (c->queries + c->rows - 1) / c->rows;
    c->rows = (c->queries + c->part - 1) / c->part;
  }
  c->units = heads * c->rows;
}
