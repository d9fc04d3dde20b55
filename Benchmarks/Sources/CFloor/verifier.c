#include "verifier.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/param_build.h>

EVP_PKEY_CTX *verifier_open(const uint8_t *point) {
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    OSSL_PARAM_BLD_push_utf8_string(builder, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0);
    OSSL_PARAM_BLD_push_octet_string(builder, OSSL_PKEY_PARAM_PUB_KEY, point, 65);
    OSSL_PARAM *parameters = OSSL_PARAM_BLD_to_param(builder);
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *import = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
    int is_read = EVP_PKEY_fromdata_init(import) == 1 &&
                  EVP_PKEY_fromdata(import, &key, EVP_PKEY_PUBLIC_KEY, parameters) == 1;
    OSSL_PARAM_free(parameters);
    OSSL_PARAM_BLD_free(builder);
    EVP_PKEY_CTX_free(import);
    if (!is_read) return NULL;
    EVP_PKEY_CTX *verifier = EVP_PKEY_CTX_new(key, NULL);
    return EVP_PKEY_verify_init(verifier) == 1 ? verifier : NULL;
}

int verifier_accepts(EVP_PKEY_CTX *verifier, const uint8_t *digest, const uint8_t *signature) {
    ECDSA_SIG *pair = ECDSA_SIG_new();
    ECDSA_SIG_set0(pair, BN_bin2bn(signature, 32, NULL), BN_bin2bn(signature + 32, 32, NULL));
    unsigned char der[80], *end = der;
    int length = i2d_ECDSA_SIG(pair, &end);
    ECDSA_SIG_free(pair);
    return length > 0 && EVP_PKEY_verify(verifier, der, (size_t)length, digest, 32) == 1;
}
