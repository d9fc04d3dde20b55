// libFuzzer as a library (LLVM, "libFuzzer", section "Using libFuzzer as a library"). Clang has no header for it.
#include <stddef.h>
#include <stdint.h>

typedef int (*LLVMFuzzerUserCallback)(const uint8_t *input, size_t count);

int LLVMFuzzerRunDriver(int *count, char ***arguments, LLVMFuzzerUserCallback run);
