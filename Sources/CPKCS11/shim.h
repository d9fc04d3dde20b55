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

/* `environ` before and after an entry was added; see ModuleProcess.withAddressInEnvironment. In C since Swift takes a
   mutable global of C for a data race, which this is made not to be: the pointer is stored atomically, and what it
   points to is never changed or freed. */
struct latchkey_environment_exchange {
    char **before;
    char **after;
};

extern char **latchkey_environ __asm__("environ");

/* Points `environ` at a copy of itself that begins with entry. Returns null without memory. */
static inline struct latchkey_environment_exchange *latchkey_environment_add(char *entry) {
    char **before = __atomic_load_n(&latchkey_environ, __ATOMIC_ACQUIRE);
    size_t count = 0;
    while (before && before[count]) count++;
    char **after = __builtin_calloc(count + 2, sizeof *after);
    struct latchkey_environment_exchange *exchange = __builtin_malloc(sizeof *exchange);
    if (!after || !exchange) {
        __builtin_free(after);
        __builtin_free(exchange);
        return NULL;
    }
    after[0] = entry;
    for (size_t i = 0; i < count; i++) after[i + 1] = before[i];
    exchange->before = before;
    exchange->after = after;
    __atomic_store_n(&latchkey_environ, after, __ATOMIC_RELEASE);
    return exchange;
}

/* Points `environ` back, unless somebody has meanwhile pointed it elsewhere. */
static inline void latchkey_environment_restore(struct latchkey_environment_exchange *exchange) {
    char **expected = exchange->after;
    __atomic_compare_exchange_n(&latchkey_environ, &expected, exchange->before, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    __builtin_free(exchange);
}
