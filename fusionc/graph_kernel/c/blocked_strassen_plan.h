/* Decides which products use Strassen's algorithm, and makes the data that they need for it. The
 * data is made when a run has enough pixels for the first time. So a session that never has enough
 * does not keep such data. */

static int gb_may_be_strassen(const gb_step *s) {
  return gb_kinds[s->op].is_matrix && s->strassen_from > 0;
}

/* Whether Strassen's algorithm takes less time on this processor. This depends on how fast the
 * processor multiplies, compared to how fast it reads. Measured times, divided by the times of
 * direct products:
 *
 *   AMD Zen 4 (family 25 with AVX-512):                                  0.90 to 0.97
 *   AMD Zen 3 (family 25 without AVX-512), three whole models:           1.00
 *   Intel Sapphire Rapids, which multiplies twice as fast:               0.93 to 1.27
 *
 * Other processors do not use the algorithm. */
static int gb_is_known_to_pay(void) {
#if defined(__x86_64__)
  enum { FAMILY = 25, EXTENDED = 15, FEATURES = 7 };
  unsigned a, b, c, d;
  if (!__get_cpuid(0, &a, &b, &c, &d) || b != signature_AMD_ebx) return 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (a >> 8 & 15) != EXTENDED) return 0;
  if ((a >> 20 & 255) != FAMILY - EXTENDED) return 0;
  return __get_cpuid_count(FEATURES, 0, &a, &b, &c, &d) && (b & bit_AVX512F);
#else
  return 0;
#endif
}

static int gb_pays_strassen(void) {
  /* kept, because the instruction that identifies the processor takes long on virtual machines */
  static _Atomic int pays = -1;
  if (pays < 0) pays = gb_is_known_to_pay();
  return pays;
}

/* Gives step k the sums of quarters of its weights. Before the sums is a number for each group,
 * which says whether the group's columns are of similar magnitude. If there is not enough memory,
 * products are computed directly. */
static void gb_give_sums(gb_state *state, int k, gb_call *c) {
  const ptrdiff_t in = c->in.channels, groups = c->out.channels / (GB_GROUP * state->width->vector);
  const ptrdiff_t group = GB_GROUP * state->width->vector * in,
                  each = group / GB_QUARTERS * GB_SUMS;
  const ptrdiff_t first = gb_rounded(groups, GB_ALIGN);
  float *made = state->derived[k];
  if (!made) {
    if (!(made = gb_allocate((first + groups * each) * (ptrdiff_t)sizeof *made))) return;
    for (ptrdiff_t g = 0; g < groups; ++g)
      made[g] = (float)state->width->add_quarters(state->weights[k] + g * group,
                                                  made + first + g * each, in);
    made = gb_keep_derived(state, k, made);
  }
  c->even = made;
  c->derived = made + first;
}

/* Whether a step uses Strassen's algorithm, on a processor on which this saves time. Each thread
 * computes the factors of its pixels itself. If it needs them for only a few groups, this takes
 * longer than the algorithm saves. */
static int gb_is_strassen(const gb_width *width, const gb_call *c) {
  enum { GB_LEAST_GROUPS = 4 };
  const ptrdiff_t pixels = c->out.height * c->out.width,
                  groups = c->out.channels / (GB_GROUP * width->vector);
  if (!gb_may_be_strassen(c->step) || pixels < c->step->strassen_from || !gb_pays_strassen())
    return 0;
  return c->out.batch * groups * (pixels / (2 * width->pairs_at_once(c->in.channels)) + 1) >=
         GB_LEAST_GROUPS * gb_threads();
}

/* Divides pairs of pixels into an even number of chunks, so that two threads have equal work. If
 * threads would have different numbers of chunks, they share the groups of blocks of output
 * channels instead. */
static void gb_divide_strassen(const gb_width *width, gb_call *c) {
  enum { GB_MANY = 4 }; /* the number of chunks for each thread */
  const ptrdiff_t pairs = (c->out.height * c->out.width + 1) / 2,
                  most = width->pairs_at_once(c->in.channels);
  c->is_strassen = 1;
  c->keeps_chunk = 1;
  c->rows = pairs > most ? gb_rounded((pairs + most - 1) / most, 2) : 1;
  const ptrdiff_t chunks = c->out.batch * c->rows, threads = gb_threads();
  c->strip = chunks < GB_MANY * threads && chunks % threads
                 ? (c->out.blocks + GB_GROUP - 1) / GB_GROUP
                 : 1;
  c->units = chunks * c->strip;
}
