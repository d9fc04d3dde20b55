#ifndef VERIFIER_H
#define VERIFIER_H

#include <openssl/evp.h>
#include <stdint.h>

/* Verifies with libcrypto for a P-256 point: 65 bytes, uncompressed. NULL when it is none. */
EVP_PKEY_CTX *verifier_open(const uint8_t *point);

/* Whether r and s, 32 bytes each, are the key's signature of the digest of 32 bytes. */
int verifier_accepts(EVP_PKEY_CTX *verifier, const uint8_t *digest, const uint8_t *signature);

#endif
