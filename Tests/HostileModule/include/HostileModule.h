/* A PKCS#11 module that passes all calls to another one, and misbehaves on request. See HostileModule.c. */
#ifndef HOSTILE_MODULE_H
#define HOSTILE_MODULE_H

#include <p11-kit/pkcs11.h>

CK_RV C_GetFunctionList(CK_FUNCTION_LIST_PTR_PTR list);

#endif
