/* What the compiler may not do in any of the functions below. */

/* gcc moves 8 bytes by way of an MMX register where it sees fit, and then long doubles of the process are NaN. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("no-mmx")
#endif
