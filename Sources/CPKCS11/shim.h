#include <dlfcn.h>
#include <stddef.h>
#include <p11-kit-1/p11-kit/pkcs11.h>

/* The argument of C_Initialize. NSS softoken declares two words where the standard has pReserved: LibraryParameters, and its own
   pReserved, which must be null. */
struct latchkey_initialize_arguments {
    CK_C_INITIALIZE_ARGS standard;
    void *reserved;
};

/* GNU functions that Swift's Glibc module does not have. The names differ to avoid conflicts with other declarations. */

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

/* The functions of p11-kit (p11-kit.h and uri.h), as of version 0.23. This module links no library: LatchkeyPKCS11 loads p11-kit at
   the first use of a token, because most commands use none. */
struct p11_kit_uri;
#define LATCHKEY_P11_KIT_URI_OK 0
#define LATCHKEY_P11_KIT_URI_FOR_ANY 0xffff
#define LATCHKEY_P11_KIT(F) \
    F(const char *, p11_kit_message, (void)) \
    F(CK_FUNCTION_LIST *, p11_kit_module_load, (const char *path, int flags)) \
    F(int, p11_kit_uri_any_unrecognized, (struct p11_kit_uri *)) \
    F(int, p11_kit_uri_format, (struct p11_kit_uri *, int type, char **text)) \
    F(void, p11_kit_uri_free, (struct p11_kit_uri *)) \
    F(CK_ATTRIBUTE *, p11_kit_uri_get_attribute, (struct p11_kit_uri *, CK_ATTRIBUTE_TYPE)) \
    F(CK_INFO *, p11_kit_uri_get_module_info, (struct p11_kit_uri *)) \
    F(const char *, p11_kit_uri_get_module_name, (const struct p11_kit_uri *)) \
    F(const char *, p11_kit_uri_get_module_path, (const struct p11_kit_uri *)) \
    F(const char *, p11_kit_uri_get_pin_source, (const struct p11_kit_uri *)) \
    F(const char *, p11_kit_uri_get_pin_value, (const struct p11_kit_uri *)) \
    F(CK_SLOT_ID, p11_kit_uri_get_slot_id, (struct p11_kit_uri *)) \
    F(CK_SLOT_INFO *, p11_kit_uri_get_slot_info, (struct p11_kit_uri *)) \
    F(CK_TOKEN_INFO *, p11_kit_uri_get_token_info, (struct p11_kit_uri *)) \
    F(int, p11_kit_uri_match_token_info, (const struct p11_kit_uri *, const CK_TOKEN_INFO *)) \
    F(const char *, p11_kit_uri_message, (int code)) \
    F(struct p11_kit_uri *, p11_kit_uri_new, (void)) \
    F(int, p11_kit_uri_parse, (const char *text, int type, struct p11_kit_uri *)) \
    F(void, p11_kit_uri_set_module_path, (struct p11_kit_uri *, const char *path))
struct latchkey_p11_kit {
#define LATCHKEY_FIELD(result, name, parameters) result (*name) parameters;
    LATCHKEY_P11_KIT(LATCHKEY_FIELD)
#undef LATCHKEY_FIELD
};

/* Whether the library has all functions. */
static inline _Bool latchkey_p11_kit_load(struct latchkey_p11_kit *functions) {
    void *library = dlopen("libp11-kit.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library) return 0;
#define LATCHKEY_LOAD(result, name, parameters) \
    if (!(functions->name = (result (*) parameters)dlsym(library, #name))) return 0;
    LATCHKEY_P11_KIT(LATCHKEY_LOAD)
#undef LATCHKEY_LOAD
    return 1;
}

/* The file of p11-kit's own library, or null. */
static inline const char *latchkey_p11_kit_file(const struct latchkey_p11_kit *functions) {
    struct latchkey_library library;
    return latchkey_dladdr((const void *)functions->p11_kit_module_load, &library) ? library.file : NULL;
}
