#include <stddef.h>
#include <p11-kit/p11-kit.h>
#include <p11-kit/pkcs11.h>
#include <p11-kit/uri.h>

/* The argument of C_Initialize. NSS softoken declares two words where the standard has pReserved: LibraryParameters, and its own
   pReserved, which must be null. */
struct latchkey_initialize_arguments {
    CK_C_INITIALIZE_ARGS standard;
    void *reserved;
};

/* GNU functions that Swift's Glibc module does not have. The names differ to avoid conflicts with other declarations. */

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
