#include <dlfcn.h>
#include <openssl/evp.h>

/* This module links no library: LatchkeyRelyingParty loads libcrypto, in 2 ms, for the first RSA endorsement key. Only servers
   verify such keys. */
#define LATCHKEY_ENCRYPTION(F) \
    F(EVP_PKEY_CTX_ctrl_str) F(EVP_PKEY_CTX_free) F(EVP_PKEY_CTX_new_from_pkey) F(EVP_PKEY_encrypt) F(EVP_PKEY_encrypt_init) \
    F(EVP_PKEY_free) F(d2i_PublicKey)

/* The functions that LatchkeyRelyingParty calls. */
struct latchkey_libcrypto {
#define LATCHKEY_FIELD(name) __typeof__(&name) name;
    LATCHKEY_ENCRYPTION(LATCHKEY_FIELD)
#undef LATCHKEY_FIELD
};

/* Loads libcrypto, and looks up its functions. Returns 0 if the library or a function is missing; dlerror(3) has the cause. */
static inline _Bool latchkey_libcrypto_load(struct latchkey_libcrypto *functions) {
    void *library = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
    if (!library) return 0;
#define LATCHKEY_LOAD(name) \
    if (!(functions->name = (__typeof__(&name))dlsym(library, #name))) return 0;
    LATCHKEY_ENCRYPTION(LATCHKEY_LOAD)
#undef LATCHKEY_LOAD
    return 1;
}
