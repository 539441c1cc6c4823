/* The tables of functions for all widths of vectors, in the order of the numbers that gk_best_body
 * returns. */
#if defined(__x86_64__)
const gb_width *const gb_widths[] = {&GB_width_of_4, &GB_width_of_8, &GB_width_of_16};
#else
const gb_width *const gb_widths[] = {&GB_width_of_4};
#endif
