/* A PKCS#11 module that passes everything on to another one, and misbehaves where it is told to. See HostileModule.c. */
#ifndef HOSTILE_MODULE_H
#define HOSTILE_MODULE_H

#include <p11-kit/pkcs11.h>

CK_RV C_GetFunctionList(CK_FUNCTION_LIST_PTR_PTR list);

#endif
