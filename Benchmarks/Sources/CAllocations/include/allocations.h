#include <stddef.h>

/* Counts the bytes that this process has allocated. allocations.c replaces malloc, free and the related functions in the program
 * that links it. */

/* Begins a measurement: the bytes in use now are its zero. */
void allocations_begin(void);

/* Returns the maximum number of bytes in use since allocations_begin, above its zero. */
size_t allocations_peak(void);
