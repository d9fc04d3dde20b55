/* TPM2TCTI brings CTSS2 into the tests' view, which declares the same types. Without this import, whichever module the
   compiler met first would own them, and members would be visible or not by chance. */
#pragma clang module import CTSS2

#include <tss2/tss2_esys.h>
#include <tss2/tss2_mu.h>
#include <tss2/tss2_tctildr.h>
