#include <tss2/tss2_tctildr.h>

/* Tss2_Tcti_Transmit and its siblings are macros that reach through the context's function table, and Swift imports
   no such macros. Each function here is the macro of the same name and nothing more. */

static inline TSS2_RC ctss2_transmit(TSS2_TCTI_CONTEXT *context, size_t size, const uint8_t *command) {
    return Tss2_Tcti_Transmit(context, size, command);
}

static inline TSS2_RC ctss2_receive(TSS2_TCTI_CONTEXT *context, size_t *size, uint8_t *response, int32_t timeout) {
    return Tss2_Tcti_Receive(context, size, response, timeout);
}

static inline TSS2_RC ctss2_poll_handles(TSS2_TCTI_CONTEXT *context, struct pollfd *handles, size_t *count) {
    return Tss2_Tcti_GetPollHandles(context, handles, count);
}

static inline TSS2_RC ctss2_cancel(TSS2_TCTI_CONTEXT *context) {
    return Tss2_Tcti_Cancel(context);
}
