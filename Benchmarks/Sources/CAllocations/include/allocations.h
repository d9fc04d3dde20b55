#include <stddef.h>

/* Counts the bytes of this process's allocator. The functions of allocations.c replace malloc and its relatives in the program
 * that links them. */

/* Begins a measurement: the bytes in use now are its zero. */
void allocations_begin(void);

/* The most bytes in use at one time since the beginning of the measurement, above its zero. */
size_t allocations_peak(void);
