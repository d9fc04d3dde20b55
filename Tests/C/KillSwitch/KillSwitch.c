// A library for LD_PRELOAD that kills the process (SIGKILL) before its n-th external effect.
//
// An effect is a system call that other processes can notice: a change or synchronization of a file or directory, or data sent
// to a socket. A process that is killed between two effects leaves the same state wherever it is killed, so killing it once
// before each effect covers all cases. Output to pipes and terminals is not an effect. Neither is SQLite's shared memory, which
// SQLite rebuilds from the files.
//
// The functions make the system calls directly, so that no other library's version of them runs; fflush is the C library's. The
// tests build the library with BuiltProduct.library.

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// The content of the file in the variable KILL_SWITCH, which the test and the program map.
struct kill_switch {
    // The effect before which to kill the process, counted from 1, or 0.
    uint64_t lethal;
    // The number of effects, without the lethal one.
    uint64_t effects;
    // The number of changes of files.
    uint64_t files;
    // The number of messages to local sockets: a software TPM or a bus.
    uint64_t local;
    // The number of messages to the network.
    uint64_t network;
};

static struct kill_switch *shared;

enum kind { FILES, LOCAL, NETWORK, NOTHING };

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("KILL_SWITCH");
    // Child processes are not affected.
    unsetenv("LD_PRELOAD");
    unsetenv("KILL_SWITCH");
    if (!path) return;
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) abort();
    void *address = mmap(NULL, sizeof(struct kill_switch), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (address == MAP_FAILED) abort();
    shared = address;
}

static void effect(enum kind kind) {
    if (!shared || kind == NOTHING) return;
    uint64_t number = __atomic_add_fetch(&shared->effects, 1, __ATOMIC_SEQ_CST);
    if (number == shared->lethal) {
        __atomic_sub_fetch(&shared->effects, 1, __ATOMIC_SEQ_CST);
        kill(getpid(), SIGKILL);
        // The signal comes before the call does.
        for (;;) pause();
    }
    uint64_t *kinds[] = {&shared->files, &shared->local, &shared->network};
    __atomic_add_fetch(kinds[kind], 1, __ATOMIC_SEQ_CST);
}

static enum kind kind_of(int descriptor) {
    int saved = errno;
    struct stat status;
    enum kind kind = NOTHING;
    if (shared && fstat(descriptor, &status) == 0) {
        if (S_ISREG(status.st_mode)) kind = FILES;
        if (S_ISSOCK(status.st_mode)) {
            int domain = 0;
            socklen_t length = sizeof domain;
            getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &length);
            kind = domain == AF_UNIX ? LOCAL : domain == AF_INET || domain == AF_INET6 ? NETWORK : NOTHING;
        }
    }
    errno = saved;
    return kind;
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
    effect(kind_of(descriptor));
    return syscall(SYS_write, descriptor, bytes, count);
}

ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    effect(kind_of(descriptor));
    return syscall(SYS_writev, descriptor, parts, count);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
    effect(kind_of(descriptor));
    return syscall(SYS_pwrite64, descriptor, bytes, count, offset);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t offset) {
    effect(kind_of(descriptor));
    return syscall(SYS_pwrite64, descriptor, bytes, count, offset);
}

ssize_t send(int descriptor, const void *bytes, size_t count, int flags) {
    effect(kind_of(descriptor));
    return syscall(SYS_sendto, descriptor, bytes, count, flags, NULL, 0);
}

ssize_t sendto(
    int descriptor, const void *bytes, size_t count, int flags, const struct sockaddr *address, socklen_t length
) {
    effect(kind_of(descriptor));
    return syscall(SYS_sendto, descriptor, bytes, count, flags, address, length);
}

ssize_t sendmsg(int descriptor, const struct msghdr *message, int flags) {
    effect(kind_of(descriptor));
    return syscall(SYS_sendmsg, descriptor, message, flags);
}

// The C library writes a stream's buffer without the functions above.
int fflush(FILE *stream) {
    static int (*flush)(FILE *);
    if (!flush) flush = (int (*)(FILE *))dlsym(RTLD_NEXT, "fflush");
    if (stream) effect(kind_of(fileno(stream)));
    return flush(stream);
}

int fsync(int descriptor) {
    effect(kind_of(descriptor));
    return syscall(SYS_fsync, descriptor);
}

int fdatasync(int descriptor) {
    effect(kind_of(descriptor));
    return syscall(SYS_fdatasync, descriptor);
}

int ftruncate(int descriptor, off_t length) {
    effect(kind_of(descriptor));
    return syscall(SYS_ftruncate, descriptor, length);
}

int ftruncate64(int descriptor, off64_t length) {
    effect(kind_of(descriptor));
    return syscall(SYS_ftruncate, descriptor, length);
}

int unlink(const char *path) {
    effect(FILES);
    return syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int unlinkat(int directory, const char *path, int flags) {
    effect(FILES);
    return syscall(SYS_unlinkat, directory, path, flags);
}

int remove(const char *path) {
    effect(FILES);
    int status = syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    return status == 0 || errno != EISDIR ? status : syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

int rename(const char *from, const char *to) {
    effect(FILES);
    return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int mkdir(const char *path, mode_t mode) {
    struct stat status;
    if (lstat(path, &status) != 0) effect(FILES);
    return syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int fchmod(int descriptor, mode_t mode) {
    effect(kind_of(descriptor));
    return syscall(SYS_fchmod, descriptor, mode);
}

// Opening is an effect where it makes the file.
static int open_counted(int directory, const char *path, int flags, mode_t mode) {
    struct stat status;
    if ((flags & O_CREAT) && shared && fstatat(directory, path, &status, 0) != 0) effect(FILES);
    return syscall(SYS_openat, directory, path, flags, mode);
}

static int takes_mode(int flags) { return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE; }

#define WITH_MODE(last)                                                                                                \
    mode_t mode = 0;                                                                                                   \
    if (takes_mode(flags)) {                                                                                           \
        va_list rest;                                                                                                  \
        va_start(rest, last);                                                                                          \
        mode = va_arg(rest, mode_t);                                                                                   \
        va_end(rest);                                                                                                  \
    }

int open(const char *path, int flags, ...) {
    WITH_MODE(flags)
    return open_counted(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    WITH_MODE(flags)
    return open_counted(AT_FDCWD, path, flags, mode);
}

int openat(int directory, const char *path, int flags, ...) {
    WITH_MODE(flags)
    return open_counted(directory, path, flags, mode);
}
