#include <dlfcn.h>
#include <libp11.h>
#include <openssl/ui.h>

/* This module links no library: LatchkeyPKCS11 loads libp11 and libcrypto when OpenSSL first uses a key. */
#define LATCHKEY_LIBP11(F) \
    F(ERR_get_CKR_code) F(ERR_load_PKCS11_strings) F(PKCS11_CTX_load) F(PKCS11_CTX_new) F(PKCS11_enumerate_keys) \
    F(PKCS11_enumerate_slots) F(PKCS11_get_private_key) F(PKCS11_set_ui_method)
#define LATCHKEY_LIBCRYPTO(F) \
    F(CRYPTO_free) F(ERR_clear_error) F(ERR_get_error) F(ERR_reason_error_string) F(EVP_PKEY_free) \
    F(EVP_PKEY_get1_encoded_public_key) F(UI_create_method) F(UI_get0_user_data) F(UI_get_string_type) \
    F(UI_method_set_reader) F(UI_set_result)

/* The functions of libp11 and libcrypto that LatchkeyPKCS11 calls. */
struct latchkey_libp11 {
#define LATCHKEY_FIELD(name) __typeof__(&name) name;
    LATCHKEY_LIBP11(LATCHKEY_FIELD)
    LATCHKEY_LIBCRYPTO(LATCHKEY_FIELD)
#undef LATCHKEY_FIELD
};

/* Whether the libraries have all functions. libp11 needs the same libcrypto, so the loader loads it once. */
static inline _Bool latchkey_libp11_load(struct latchkey_libp11 *functions) {
    void *library = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
    if (!library) return 0;
#define LATCHKEY_LOAD(name) \
    if (!(functions->name = (__typeof__(&name))dlsym(library, #name))) return 0;
    LATCHKEY_LIBCRYPTO(LATCHKEY_LOAD)
    library = dlopen("libp11.so.3", RTLD_NOW | RTLD_LOCAL);
    if (!library) return 0;
    LATCHKEY_LIBP11(LATCHKEY_LOAD)
#undef LATCHKEY_LOAD
    return 1;
}
