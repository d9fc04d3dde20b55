#include <stddef.h>
#include <p11-kit/p11-kit.h>
#include <p11-kit/pkcs11.h>
#include <p11-kit/uri.h>

/* What Swift's Glibc module leaves out, since it is GNU's. The names differ so that they meet no other declaration. */

/* accept4(2) without the peer's address. */
extern int latchkey_accept4(int socket, void *address, void *length, int flags) __asm__("accept4");

/* posix_spawn_file_actions_addclosefrom_np(3), of glibc 2.34. */
extern int latchkey_spawn_close_from(void *actions, int first) __asm__("posix_spawn_file_actions_addclosefrom_np");

/* getauxval(3): AT_SECURE is 23. */
extern unsigned long latchkey_getauxval(unsigned long type) __asm__("getauxval");

/* Dl_info of dladdr(3). */
struct latchkey_library {
    const char *file;
    void *base;
    const char *symbol;
    void *address;
};
extern int latchkey_dladdr(const void *address, struct latchkey_library *library) __asm__("dladdr");

/* The file of p11-kit's own library, or null. */
static inline const char *latchkey_p11_kit_file(void) {
    struct latchkey_library library;
    return latchkey_dladdr((const void *)p11_kit_module_load, &library) ? library.file : NULL;
}

/* Adds an entry to `environ` and takes it out again; see ModuleProcess.withAddressInEnvironment. In C since Swift takes
   a mutable global of C for a data race. Each change makes a new copy and stores its pointer atomically, and only if
   nobody stored another meanwhile; a copy is never changed or freed, nor is the old one put back, which setenv(3) may have
   freed. So what other threads' getenv(3) reads stays valid. What remains is setenv(3) itself, which stores without
   looking: one that runs at the same moment may be lost, or may lose ours. It never leads to freed memory. */
extern char **latchkey_environ __asm__("environ");

/* Points `environ` at a copy of itself that begins with added, where that is not null, and lacks removed. Returns 0
   without memory. */
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
        /* Nobody has seen this copy. */
        __builtin_free(after);
    }
}
