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

/* The least that a signature with a PIN by a TPM 2.0 can cost: the same commands, with and without ESAPI. All functions
 * return 0 or the response code, after a message on stderr. */
typedef struct floor_tpm floor_tpm;

/* Connects, and makes a key under the storage root key at 0x81000001, which must be there. Its policy has two branches, of
 * which the PIN is one: StartAuthSession (salted), Load, PolicyAuthValue, PolicyOR, Sign, FlushContext. NULL on failure. */
floor_tpm *floor_tpm_open(const char *tcti, const char *pin);

/* Commands written by hand, session cryptography on libcrypto, HMACs checked both ways. The digest has 32 bytes; r and s
 * have 32 each. */
uint32_t floor_tpm_sign(floor_tpm *tpm, const uint8_t *digest, uint8_t *signature);

/* Everything that can be done before the PIN is known; what is left then; and the end. */
uint32_t floor_tpm_prime(floor_tpm *tpm);
uint32_t floor_tpm_sign_primed(floor_tpm *tpm, const uint8_t *digest, uint8_t *signature);
uint32_t floor_tpm_end_primed(floor_tpm *tpm);

/* The same commands through ESAPI. */
uint32_t floor_tpm_sign_esapi(floor_tpm *tpm, const uint8_t *digest);

/* Verifies with libcrypto what floor_tpm_sign made. Returns 1 when it is the key's. */
int floor_tpm_verify(floor_tpm *tpm, const uint8_t *digest, const uint8_t *signature);

#endif
