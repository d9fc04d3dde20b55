/* glibc's allocator with a count (“Replacing malloc” in its manual). The size of a block is the size that the
 * allocator gave it (malloc_usable_size), which is at least the requested size. */
#include "allocations.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static atomic_long in_use;
static atomic_long peak;
static atomic_long zero;

static void *add(void *block) {
    if (!block) return block;
    long size = (long)malloc_usable_size(block);
    long now = atomic_fetch_add(&in_use, size) + size;
    long most = atomic_load(&peak);
    while (now > most && !atomic_compare_exchange_weak(&peak, &most, now)) {}
    return block;
}

static void subtract(void *block) {
    if (block) atomic_fetch_sub(&in_use, (long)malloc_usable_size(block));
}

void allocations_begin(void) {
    long now = atomic_load(&in_use);
    atomic_store(&zero, now);
    atomic_store(&peak, now);
}

size_t allocations_peak(void) {
    long most = atomic_load(&peak) - atomic_load(&zero);
    return most > 0 ? (size_t)most : 0;
}

void *malloc(size_t size) { return add(__libc_malloc(size)); }

void *calloc(size_t count, size_t size) { return add(__libc_calloc(count, size)); }

/* While a block moves, the old and the new one exist at the same time. */
void *realloc(void *block, size_t size) {
    long old = block ? (long)malloc_usable_size(block) : 0;
    void *moved = __libc_realloc(block, size);
    if (!moved && size) return NULL;
    if (moved == block) atomic_fetch_sub(&in_use, old);
    add(moved);
    if (moved != block) atomic_fetch_sub(&in_use, old);
    return moved;
}

void free(void *block) {
    subtract(block);
    __libc_free(block);
}

void *memalign(size_t alignment, size_t size) { return add(__libc_memalign(alignment, size)); }

void *aligned_alloc(size_t alignment, size_t size) { return add(__libc_memalign(alignment, size)); }

int posix_memalign(void **result, size_t alignment, size_t size) {
    if (alignment % sizeof(void *) || !alignment || (alignment & (alignment - 1))) return EINVAL;
    void *block = add(__libc_memalign(alignment, size));
    if (!block) return ENOMEM;
    *result = block;
    return 0;
}

void *valloc(size_t size) { return add(__libc_memalign((size_t)sysconf(_SC_PAGESIZE), size)); }

void *pvalloc(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return add(__libc_memalign(page, (size + page - 1) / page * page));
}
