#include <sys/prctl.h>

/* Makes this process non-dumpable (prctl(2), PR_SET_DUMPABLE). Returns 0, or -1 with errno.

   In C, since Swift does not import variadic functions. */
static inline int latchkey_process_forbid_dumping(void) { return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }
