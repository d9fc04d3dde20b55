#include <stddef.h>

/* Changes this process's environment while other threads read it.

   setenv(3) is no way to do that: it frees the list of entries that another thread's getenv(3) or a child's start may be
   reading. Here each change makes a new list and stores its pointer atomically, and only if nobody stored another
   meanwhile. A list is never changed or freed, some hundred bytes for each change, nor is an old one put back, which
   setenv(3) may have freed: so what others read stays valid. What remains is setenv(3) in somebody else's code, which
   stores without looking: one that runs at the same moment may be lost, or may lose ours. That it frees a list of its
   own is its caller's affair.

   In C, since Swift takes a mutable global of C for a data race. The name differs so that it meets no other
   declaration. */
extern char **latchkey_environ __asm__("environ");

/* Puts a list in place of the present one that begins with added, an entry `NAME=value` that is never freed, where that
   is not null, and lacks the entry at the address removed. Returns 0 without memory. */
static inline int latchkey_environment_change(char *added, const char *removed) {
    for (;;) {
        char **before = __atomic_load_n(&latchkey_environ, __ATOMIC_ACQUIRE);
        size_t count = 0, end = 0;
        while (before && before[count]) count++;
        char **after = (char **)__builtin_calloc(count + 2, sizeof *after);
        if (!after) return 0;
        if (added) after[end++] = added;
        for (size_t i = 0; i < count; i++)
            if (before[i] != removed) after[end++] = before[i];
        char **expected = before;
        if (__atomic_compare_exchange_n(&latchkey_environ, &expected, after, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return 1;
        /* Nobody has seen this list. */
        __builtin_free(after);
    }
}
