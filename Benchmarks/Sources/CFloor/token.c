#include "CFloor.h"
#include "verifier.h"

#include <dlfcn.h>
#include <p11-kit/pkcs11.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct floor_token {
    CK_FUNCTION_LIST_PTR functions;
    CK_SESSION_HANDLE session;
    CK_OBJECT_HANDLE key;
    EVP_PKEY_CTX *verifier;
};

static const CK_BYTE curve[] = {0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07};

static CK_RV find_slot(CK_FUNCTION_LIST_PTR functions, const char *label, CK_SLOT_ID *slot) {
    CK_SLOT_ID slots[64];
    CK_ULONG count = 64;
    CK_RV result = functions->C_GetSlotList(CK_TRUE, slots, &count);
    for (CK_ULONG i = 0; result == CKR_OK && i < count; i++) {
        CK_TOKEN_INFO info;
        if (functions->C_GetTokenInfo(slots[i], &info) != CKR_OK) continue;
        if (memcmp(info.label, label, strlen(label)) == 0) {
            *slot = slots[i];
            return CKR_OK;
        }
    }
    return result == CKR_OK ? CKR_TOKEN_NOT_PRESENT : result;
}

/* A key that needs no login, like one of Latchkey's with the policy `none`. */
static CK_RV make_key(floor_token *token, CK_OBJECT_HANDLE *public_half, CK_OBJECT_HANDLE *private_half) {
    CK_BBOOL yes = CK_TRUE, no = CK_FALSE;
    CK_MECHANISM generation = {CKM_EC_KEY_PAIR_GEN, NULL, 0};
    CK_ATTRIBUTE open[] = {{CKA_EC_PARAMS, (void *)curve, sizeof curve}, {CKA_TOKEN, &yes, 1}, {CKA_VERIFY, &yes, 1}};
    CK_ATTRIBUTE closed[] = {{CKA_TOKEN, &yes, 1},
                             {CKA_PRIVATE, &no, 1},
                             {CKA_SENSITIVE, &yes, 1},
                             {CKA_EXTRACTABLE, &no, 1},
                             {CKA_SIGN, &yes, 1}};
    return token->functions->C_GenerateKeyPair(token->session, &generation, open, 3, closed, 5, public_half,
                                               private_half);
}

static EVP_PKEY_CTX *make_verifier(floor_token *token, CK_OBJECT_HANDLE public_half) {
    CK_BYTE point[67];
    CK_ATTRIBUTE attribute = {CKA_EC_POINT, point, sizeof point};
    if (token->functions->C_GetAttributeValue(token->session, public_half, &attribute, 1) != CKR_OK) return NULL;
    /* An OCTET STRING around the point: two bytes more. */
    return attribute.ulValueLen == 67 ? verifier_open(point + 2) : NULL;
}

floor_token *floor_open(const char *module, const char *label, const char *pin) {
    void *library = dlopen(module, RTLD_NOW | RTLD_LOCAL);
    CK_C_GetFunctionList list = library ? (CK_C_GetFunctionList)dlsym(library, "C_GetFunctionList") : NULL;
    floor_token *token = calloc(1, sizeof *token);
    CK_OBJECT_HANDLE public_half;
    CK_SLOT_ID slot;
    CK_C_INITIALIZE_ARGS arguments = {.flags = CKF_OS_LOCKING_OK};
    if (!list || list(&token->functions) != CKR_OK) {
        fprintf(stderr, "%s is no PKCS#11 module\n", module);
        return NULL;
    }
    CK_RV result = token->functions->C_Initialize(&arguments);
    if (result == CKR_CRYPTOKI_ALREADY_INITIALIZED) result = CKR_OK;
    if (result == CKR_OK) result = find_slot(token->functions, label, &slot);
    if (result == CKR_OK) {
        result = token->functions->C_OpenSession(slot, CKF_SERIAL_SESSION | CKF_RW_SESSION, NULL, NULL,
                                                 &token->session);
    }
    if (result == CKR_OK) {
        result = token->functions->C_Login(token->session, CKU_USER, (CK_UTF8CHAR_PTR)pin, strlen(pin));
        if (result == CKR_USER_ALREADY_LOGGED_IN) result = CKR_OK;
    }
    if (result == CKR_OK) result = make_key(token, &public_half, &token->key);
    if (result == CKR_OK) token->verifier = make_verifier(token, public_half);
    if (result == CKR_OK && token->verifier) return token;
    fprintf(stderr, "the token can't be used: 0x%lx\n", result);
    free(token);
    return NULL;
}

unsigned long floor_fill(floor_token *token, int count) {
    CK_OBJECT_HANDLE public_half, private_half;
    CK_RV result = CKR_OK;
    while (result == CKR_OK && count-- > 0) result = make_key(token, &public_half, &private_half);
    return result;
}

unsigned long floor_sign(floor_token *token, const uint8_t *digest, uint8_t *signature) {
    CK_MECHANISM mechanism = {CKM_ECDSA, NULL, 0};
    CK_ULONG length = 64;
    CK_RV result = token->functions->C_SignInit(token->session, &mechanism, token->key);
    if (result != CKR_OK) return result;
    return token->functions->C_Sign(token->session, (CK_BYTE_PTR)digest, 32, signature, &length);
}

int floor_verify(floor_token *token, const uint8_t *digest, const uint8_t *signature) {
    return verifier_accepts(token->verifier, digest, signature);
}
