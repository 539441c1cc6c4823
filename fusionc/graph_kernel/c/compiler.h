/* Switches off an optimization that the compiler must not apply to the functions below. */

/* gcc may move 8 bytes through an MMX register. Afterwards, all long doubles of the process would
 * be NaN. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("no-mmx")
#endif
