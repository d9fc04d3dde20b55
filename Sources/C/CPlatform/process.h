#include <errno.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* SO_PEERPIDFD of Linux 6.5, which Debian 12's headers do not have. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* Makes this process non-dumpable (prctl(2), PR_SET_DUMPABLE). Returns 0, or -1 with errno.

   In C, since Swift does not import variadic functions. */
static inline int latchkey_process_forbid_dumping(void) { return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }

/* A descriptor of the process that connected (pidfd_open(2)), readable after its end. Before Linux 6.5 it is that of the
   process that has the id now. Returns -1 with errno. */
static inline int latchkey_peer_process(int connection, pid_t process) {
    int descriptor = -1;
    socklen_t size = sizeof descriptor;
    if (getsockopt(connection, SOL_SOCKET, SO_PEERPIDFD, &descriptor, &size) == 0) return descriptor;
    return errno == ENOPROTOOPT ? (int)syscall(SYS_pidfd_open, process, 0) : -1;
}

/* posix_spawn_file_actions_addclosefrom_np(3), of glibc 2.34, which Swift's Glibc module does not have. */
extern int latchkey_spawn_close_from(void *actions, int first) __asm__("posix_spawn_file_actions_addclosefrom_np");
