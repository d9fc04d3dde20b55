#include <sys/prctl.h>

/* Makes this process non-dumpable (prctl(2), PR_SET_DUMPABLE). Returns 0, or -1 with errno.

   In C, since Swift does not import variadic functions. */
static inline int latchkey_process_forbid_dumping(void) { return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }

/* posix_spawn_file_actions_addclosefrom_np(3), of glibc 2.34, which Swift's Glibc module does not have. */
extern int latchkey_spawn_close_from(void *actions, int first) __asm__("posix_spawn_file_actions_addclosefrom_np");

/* pidfd_open(2), of glibc 2.36, which Swift's Glibc module does not have. */
extern int latchkey_pidfd_open(int process, unsigned flags) __asm__("pidfd_open");
