#include "CFloor.h"
#include "verifier.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tss2/tss2_esys.h>
#include <tss2/tss2_mu.h>
#include <tss2/tss2_tctildr.h>

enum { ROOT = 0x81000001, HASH = 32, NAME = 34, ANY = 0x7fffffff };

#define TRY(expression)                                                                                                \
    do {                                                                                                               \
        TSS2_RC result_ = (expression);                                                                                \
        if (result_) return complain(#expression, result_);                                                            \
    } while (0)

static TSS2_RC complain(const char *what, TSS2_RC code) {
    fprintf(stderr, "%s: 0x%x\n", what, code);
    return code;
}

/* A key as it lies on the disk. */
typedef struct {
    TPM2B_PUBLIC *public;
    TPM2B_PRIVATE *private;
    uint8_t name[NAME];
} blob;

/* A session of our own. */
typedef struct {
    TPM2_HANDLE handle;
    uint8_t key[HASH], nonce[HASH];
} session;

typedef struct {
    uint8_t bytes[4096];
    size_t count;
} buffer;

struct floor_tpm {
    TSS2_TCTI_CONTEXT *tcti;
    ESYS_CONTEXT *esys;
    ESYS_TR root;
    TPM2B_AUTH pin;
    TPML_DIGEST branches;
    blob key;
    EVP_PKEY *root_key;
    uint8_t root_x[HASH];
    EVP_PKEY_CTX *verifier;
    const EVP_MD *sha256;
    session primed;
    TPM2_HANDLE primed_key;
    buffer response;
};

static const TPMT_SYM_DEF aes = {.algorithm = TPM2_ALG_AES, .keyBits.aes = 128, .mode.aes = TPM2_ALG_CFB};
static const TPMT_SIG_SCHEME as_the_key = {.scheme = TPM2_ALG_NULL};
static const TPMT_TK_HASHCHECK unrestricted = {.tag = TPM2_ST_HASHCHECK, .hierarchy = TPM2_RH_NULL};

/* ---- bytes ---- */

static void put(buffer *to, const void *bytes, size_t count) {
    memcpy(to->bytes + to->count, bytes, count);
    to->count += count;
}

static void put_int(buffer *to, uint32_t value, int bytes) {
    while (bytes-- > 0) to->bytes[to->count++] = (uint8_t)(value >> (8 * bytes));
}

static void put_sized(buffer *to, const void *bytes, size_t count) {
    put_int(to, (uint32_t)count, 2);
    put(to, bytes, count);
}

static uint32_t get_int(const uint8_t *from, int bytes) {
    uint32_t value = 0;
    while (bytes-- > 0) value = value << 8 | *from++;
    return value;
}

static void hash(floor_tpm *tpm, const buffer *of, uint8_t *to) { EVP_Digest(of->bytes, of->count, to, NULL, tpm->sha256, NULL); }

static void authenticate(floor_tpm *tpm, const void *key, size_t key_count, const buffer *of, uint8_t *to) {
    unsigned count;
    HMAC(tpm->sha256, key, (int)key_count, of->bytes, of->count, to, &count);
}

static TSS2_RC name(floor_tpm *tpm, const TPM2B_PUBLIC *of, uint8_t *to) {
    buffer area = {.count = 0};
    TRY(Tss2_MU_TPMT_PUBLIC_Marshal(&of->publicArea, area.bytes, sizeof area.bytes, &area.count));
    to[0] = TPM2_ALG_SHA256 >> 8;
    to[1] = TPM2_ALG_SHA256 & 0xff;
    hash(tpm, &area, to + 2);
    return 0;
}

/* ---- the raw floor: commands written by hand ---- */

static TSS2_RC exchange(floor_tpm *tpm, TPM2_CC code, const buffer *handles, const buffer *authorization,
                        const buffer *parameters) {
    buffer command = {.count = 0};
    size_t authorized = authorization ? 4 + authorization->count : 0;
    put_int(&command, authorization ? TPM2_ST_SESSIONS : TPM2_ST_NO_SESSIONS, 2);
    put_int(&command, (uint32_t)(10 + handles->count + authorized + parameters->count), 4);
    put_int(&command, code, 4);
    put(&command, handles->bytes, handles->count);
    if (authorization) {
        put_int(&command, (uint32_t)authorization->count, 4);
        put(&command, authorization->bytes, authorization->count);
    }
    put(&command, parameters->bytes, parameters->count);
    for (int attempt = 0; attempt < 5; attempt++) {
        tpm->response.count = sizeof tpm->response.bytes;
        TRY(Tss2_Tcti_Transmit(tpm->tcti, command.count, command.bytes));
        TRY(Tss2_Tcti_Receive(tpm->tcti, &tpm->response.count, tpm->response.bytes, TSS2_TCTI_TIMEOUT_BLOCK));
        TPM2_RC answer = get_int(tpm->response.bytes + 6, 4);
        /* The first use of a PIN after the TPM's start has to be said again. */
        if (answer != TPM2_RC_RETRY) return answer ? complain("a command", answer) : 0;
    }
    return complain("a command", TPM2_RC_RETRY);
}

static const uint8_t *body(floor_tpm *tpm) { return tpm->response.bytes + 10; }

/* A salted session: ECDH with the pinned storage root key, KDFe, KDFa. */
static TSS2_RC start(floor_tpm *tpm, session *made) {
    buffer handles = {.count = 0}, parameters = {.count = 0}, derivation = {.count = 0};
    uint8_t nonce[HASH], secret[HASH], salt[HASH], *point;
    size_t secret_count = sizeof secret;
    EVP_PKEY *ephemeral = EVP_EC_gen("P-256");
    EVP_PKEY_CTX *agreement = EVP_PKEY_CTX_new(ephemeral, NULL);
    EVP_PKEY_get1_encoded_public_key(ephemeral, &point);
    EVP_PKEY_derive_init(agreement);
    EVP_PKEY_derive_set_peer_ex(agreement, tpm->root_key, 0);
    EVP_PKEY_derive(agreement, secret, &secret_count);
    put_int(&derivation, 1, 4);
    put(&derivation, secret, HASH);
    put(&derivation, "SECRET", 7);
    put(&derivation, point + 1, HASH);
    put(&derivation, tpm->root_x, HASH);
    hash(tpm, &derivation, salt);

    RAND_bytes(nonce, HASH);
    put_int(&handles, ROOT, 4);
    put_int(&handles, TPM2_RH_NULL, 4);
    put_sized(&parameters, nonce, HASH);
    put_int(&parameters, 2 * (2 + HASH), 2);
    put_sized(&parameters, point + 1, HASH);
    put_sized(&parameters, point + 1 + HASH, HASH);
    put_int(&parameters, TPM2_SE_POLICY, 1);
    put_int(&parameters, aes.algorithm, 2);
    put_int(&parameters, aes.keyBits.aes, 2);
    put_int(&parameters, aes.mode.aes, 2);
    put_int(&parameters, TPM2_ALG_SHA256, 2);
    OPENSSL_free(point);
    EVP_PKEY_CTX_free(agreement);
    EVP_PKEY_free(ephemeral);
    TRY(exchange(tpm, TPM2_CC_StartAuthSession, &handles, NULL, &parameters));

    made->handle = get_int(body(tpm), 4);
    memcpy(made->nonce, body(tpm) + 6, HASH);
    derivation.count = 0;
    put_int(&derivation, 1, 4);
    put(&derivation, "ATH", 4);
    put(&derivation, made->nonce, HASH);
    put(&derivation, nonce, HASH);
    put_int(&derivation, 8 * HASH, 4);
    authenticate(tpm, salt, HASH, &derivation, made->key);
    OPENSSL_cleanse(salt, sizeof salt);
    return 0;
}

static TSS2_RC load(floor_tpm *tpm, const blob *key, TPM2_HANDLE *handle) {
    buffer handles = {.count = 0}, authorization = {.count = 0}, parameters = {.count = 0};
    put_int(&handles, ROOT, 4);
    put_int(&authorization, TPM2_RS_PW, 4);
    put_int(&authorization, 0, 2);
    put_int(&authorization, 0, 1);
    put_int(&authorization, 0, 2);
    TRY(Tss2_MU_TPM2B_PRIVATE_Marshal(key->private, parameters.bytes, sizeof parameters.bytes, &parameters.count));
    TRY(Tss2_MU_TPM2B_PUBLIC_Marshal(key->public, parameters.bytes, sizeof parameters.bytes, &parameters.count));
    TRY(exchange(tpm, TPM2_CC_Load, &handles, &authorization, &parameters));
    *handle = get_int(body(tpm), 4);
    return 0;
}

static TSS2_RC satisfy(floor_tpm *tpm, const session *in) {
    buffer handles = {.count = 0}, none = {.count = 0}, branches = {.count = 0};
    put_int(&handles, in->handle, 4);
    TRY(exchange(tpm, TPM2_CC_PolicyAuthValue, &handles, NULL, &none));
    TRY(Tss2_MU_TPML_DIGEST_Marshal(&tpm->branches, branches.bytes, sizeof branches.bytes, &branches.count));
    return exchange(tpm, TPM2_CC_PolicyOR, &handles, NULL, &branches);
}

static TSS2_RC flush(floor_tpm *tpm, TPM2_HANDLE handle) {
    buffer none = {.count = 0}, parameters = {.count = 0};
    put_int(&parameters, handle, 4);
    return exchange(tpm, TPM2_CC_FlushContext, &none, NULL, &parameters);
}

/* Signs with the session's last use, and checks the response's HMAC. */
static TSS2_RC use(floor_tpm *tpm, TPM2_HANDLE object, const blob *key, const session *with, const uint8_t *digest,
                   uint8_t *signature) {
    buffer handles = {.count = 0}, authorization = {.count = 0}, parameters = {.count = 0}, message = {.count = 0};
    uint8_t nonce[HASH], parameter_hash[HASH], mac[HASH], secret[HASH + sizeof tpm->pin.buffer];
    size_t secret_count = HASH + tpm->pin.size;
    memcpy(secret, with->key, HASH);
    memcpy(secret + HASH, tpm->pin.buffer, tpm->pin.size);

    put_int(&handles, object, 4);
    put_sized(&parameters, digest, HASH);
    put_int(&parameters, TPM2_ALG_NULL, 2);
    put_int(&parameters, TPM2_ST_HASHCHECK, 2);
    put_int(&parameters, TPM2_RH_NULL, 4);
    put_int(&parameters, 0, 2);
    put_int(&message, TPM2_CC_Sign, 4);
    put(&message, key->name, NAME);
    put(&message, parameters.bytes, parameters.count);
    hash(tpm, &message, parameter_hash);
    RAND_bytes(nonce, HASH);
    message.count = 0;
    put(&message, parameter_hash, HASH);
    put(&message, nonce, HASH);
    put(&message, with->nonce, HASH);
    put_int(&message, 0, 1);
    authenticate(tpm, secret, secret_count, &message, mac);
    put_int(&authorization, with->handle, 4);
    put_sized(&authorization, nonce, HASH);
    put_int(&authorization, 0, 1);
    put_sized(&authorization, mac, HASH);
    TRY(exchange(tpm, TPM2_CC_Sign, &handles, &authorization, &parameters));

    const uint8_t *answer = body(tpm) + 4, *proof = answer + get_int(body(tpm), 4);
    message.count = 0;
    put_int(&message, 0, 4);
    put_int(&message, TPM2_CC_Sign, 4);
    put(&message, answer, (size_t)(proof - answer));
    hash(tpm, &message, parameter_hash);
    message.count = 0;
    put(&message, parameter_hash, HASH);
    put(&message, proof + 2, HASH);
    put(&message, nonce, HASH);
    put(&message, proof + 2 + HASH, 1);
    authenticate(tpm, secret, secret_count, &message, mac);
    OPENSSL_cleanse(secret, sizeof secret);
    if (CRYPTO_memcmp(mac, proof + 2 + HASH + 1 + 2, HASH)) return complain("the response's HMAC", ANY);
    /* sigAlg, hash, then r and s with their lengths. */
    memset(signature, 0, 2 * HASH);
    const uint8_t *number = answer + 4;
    for (int part = 1; part <= 2; part++) {
        size_t count = get_int(number, 2);
        if (count > HASH) return complain("a number of the signature", ANY);
        memcpy(signature + part * HASH - count, number + 2, count);
        number += 2 + count;
    }
    return 0;
}

uint32_t floor_tpm_sign(floor_tpm *tpm, const uint8_t *digest, uint8_t *signature) {
    session with;
    TPM2_HANDLE object;
    TRY(start(tpm, &with));
    TRY(load(tpm, &tpm->key, &object));
    TRY(satisfy(tpm, &with));
    TRY(use(tpm, object, &tpm->key, &with, digest, signature));
    return flush(tpm, object);
}

uint32_t floor_tpm_prime(floor_tpm *tpm) {
    TRY(load(tpm, &tpm->key, &tpm->primed_key));
    TRY(start(tpm, &tpm->primed));
    return satisfy(tpm, &tpm->primed);
}

uint32_t floor_tpm_sign_primed(floor_tpm *tpm, const uint8_t *digest, uint8_t *signature) {
    return use(tpm, tpm->primed_key, &tpm->key, &tpm->primed, digest, signature);
}

uint32_t floor_tpm_end_primed(floor_tpm *tpm) { return flush(tpm, tpm->primed_key); }

int floor_tpm_verify(floor_tpm *tpm, const uint8_t *digest, const uint8_t *signature) {
    return verifier_accepts(tpm->verifier, digest, signature);
}

/* ---- the same with ESAPI ---- */

uint32_t floor_tpm_sign_esapi(floor_tpm *tpm, const uint8_t *digest) {
    ESYS_CONTEXT *esys = tpm->esys;
    ESYS_TR key, session;
    TPM2B_DIGEST wrapped = {.size = HASH};
    TPMT_SIGNATURE *signature;
    memcpy(wrapped.buffer, digest, HASH);
    TRY(Esys_Load(esys, tpm->root, ESYS_TR_PASSWORD, ESYS_TR_NONE, ESYS_TR_NONE, tpm->key.private, tpm->key.public, &key));
    TRY(Esys_TR_SetAuth(esys, key, &tpm->pin));
    TRY(Esys_StartAuthSession(esys, tpm->root, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, NULL,
                              TPM2_SE_POLICY, &aes, TPM2_ALG_SHA256, &session));
    TRY(Esys_TRSess_SetAttributes(esys, session, 0, 0xff));
    TRY(Esys_PolicyAuthValue(esys, session, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE));
    TRY(Esys_PolicyOR(esys, session, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, &tpm->branches));
    TRY(Esys_Sign(esys, key, session, ESYS_TR_NONE, ESYS_TR_NONE, &wrapped, &as_the_key, &unrestricted, &signature));
    Esys_Free(signature);
    return Esys_FlushContext(esys, key);
}

/* ---- what both need ---- */

/* Either the PIN or somebody else's branch: the shape of a key for a finger or a PIN. */
static void make_policy(floor_tpm *tpm, TPM2B_DIGEST *policy) {
    buffer of = {.count = HASH};
    put_int(&of, TPM2_CC_PolicyAuthValue, 4);
    tpm->branches.count = 2;
    tpm->branches.digests[0].size = tpm->branches.digests[1].size = HASH;
    RAND_bytes(tpm->branches.digests[0].buffer, HASH);
    hash(tpm, &of, tpm->branches.digests[1].buffer);
    of.count = HASH;
    put_int(&of, TPM2_CC_PolicyOR, 4);
    put(&of, tpm->branches.digests[0].buffer, HASH);
    put(&of, tpm->branches.digests[1].buffer, HASH);
    policy->size = HASH;
    hash(tpm, &of, policy->buffer);
}

static void point(const TPM2B_PUBLIC *of, uint8_t *to) {
    const TPMS_ECC_POINT *unique = &of->publicArea.unique.ecc;
    memset(to, 0, 1 + 2 * HASH);
    to[0] = 4;
    memcpy(to + 1 + HASH - unique->x.size, unique->x.buffer, unique->x.size);
    memcpy(to + 1 + 2 * HASH - unique->y.size, unique->y.buffer, unique->y.size);
}

static TSS2_RC make_key(floor_tpm *tpm) {
    blob *key = &tpm->key;
    uint8_t encoded[1 + 2 * HASH];
    TPM2B_SENSITIVE_CREATE sensitive = {.sensitive.userAuth = tpm->pin};
    TPM2B_DATA outside = {.size = 0};
    TPML_PCR_SELECTION registers = {.count = 0};
    TPM2B_PUBLIC template = {.publicArea = {
        .type = TPM2_ALG_ECC,
        .nameAlg = TPM2_ALG_SHA256,
        .objectAttributes = TPMA_OBJECT_FIXEDTPM | TPMA_OBJECT_FIXEDPARENT | TPMA_OBJECT_SENSITIVEDATAORIGIN |
                            TPMA_OBJECT_SIGN_ENCRYPT | TPMA_OBJECT_ADMINWITHPOLICY,
        .parameters.eccDetail = {.symmetric.algorithm = TPM2_ALG_NULL,
                                 .scheme = {.scheme = TPM2_ALG_ECDSA, .details.ecdsa.hashAlg = TPM2_ALG_SHA256},
                                 .curveID = TPM2_ECC_NIST_P256,
                                 .kdf.scheme = TPM2_ALG_NULL}}};
    make_policy(tpm, &template.publicArea.authPolicy);
    TRY(Esys_Create(tpm->esys, tpm->root, ESYS_TR_PASSWORD, ESYS_TR_NONE, ESYS_TR_NONE, &sensitive, &template, &outside,
                    &registers, &key->private, &key->public, NULL, NULL, NULL));
    TRY(name(tpm, key->public, key->name));
    point(key->public, encoded);
    tpm->verifier = verifier_open(encoded);
    return tpm->verifier ? 0 : complain("the new key's point", ANY);
}

static TSS2_RC prepare(floor_tpm *tpm, const char *tcti, const char *pin) {
    TPM2B_PUBLIC *root;
    uint8_t encoded[1 + 2 * HASH];
    tpm->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    tpm->pin.size = (uint16_t)strlen(pin);
    memcpy(tpm->pin.buffer, pin, tpm->pin.size);
    TRY(Tss2_TctiLdr_Initialize(tcti, &tpm->tcti));
    TRY(Esys_Initialize(&tpm->esys, tpm->tcti, NULL));
    TRY(Esys_TR_FromTPMPublic(tpm->esys, ROOT, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, &tpm->root));
    TRY(Esys_ReadPublic(tpm->esys, tpm->root, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, &root, NULL, NULL));
    point(root, encoded);
    memcpy(tpm->root_x, encoded + 1, HASH);
    EVP_PKEY *parameters = EVP_EC_gen("P-256");
    tpm->root_key = EVP_PKEY_new();
    if (EVP_PKEY_copy_parameters(tpm->root_key, parameters) != 1 ||
        EVP_PKEY_set1_encoded_public_key(tpm->root_key, encoded, sizeof encoded) != 1)
        return complain("the storage root key's point", ANY);
    EVP_PKEY_free(parameters);
    Esys_Free(root);
    return make_key(tpm);
}

floor_tpm *floor_tpm_open(const char *tcti, const char *pin) {
    floor_tpm *tpm = calloc(1, sizeof *tpm);
    if (prepare(tpm, tcti, pin) == 0) return tpm;
    free(tpm);
    return NULL;
}
