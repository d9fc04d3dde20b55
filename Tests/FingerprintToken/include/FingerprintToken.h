#ifndef FINGERPRINT_TOKEN_H
#define FINGERPRINT_TOKEN_H

#include <p11-kit/pkcs11.h>

/* The only symbol that the module shows (PKCS#11 2.40 section 5.4). */
CK_RV C_GetFunctionList(CK_FUNCTION_LIST_PTR_PTR list);

#endif
