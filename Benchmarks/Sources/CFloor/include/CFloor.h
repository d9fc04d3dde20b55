#ifndef CFLOOR_H
#define CFLOOR_H

#include <stdint.h>

/* The least that a P-256 signature by a PKCS#11 token can cost: one session, one key handle, kept. */
typedef struct floor_token floor_token;

/* Opens a session on the token that has `label`, logs in, and makes a P-256 key. Returns NULL and a message on stderr
 * when something fails. The module may be in use by the same process already. */
floor_token *floor_open(const char *module, const char *label, const char *pin);

/* Makes `count` more key pairs on the token. Returns 0, or the CK_RV of the first failure. */
unsigned long floor_fill(floor_token *token, int count);

/* C_SignInit and C_Sign over a digest of 32 bytes; r and s, 32 bytes each. Returns 0 or the CK_RV. */
unsigned long floor_sign(floor_token *token, const uint8_t *digest, uint8_t *signature);

/* Verifies with libcrypto what floor_sign made. Returns 1 when it is the key's. */
int floor_verify(floor_token *token, const uint8_t *digest, const uint8_t *signature);

#endif
