/* Optimizations that the compiler must not apply to the functions below. */

/* gcc may move 8 bytes through an MMX register, after which long doubles of the process are NaN. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("no-mmx")
#endif
