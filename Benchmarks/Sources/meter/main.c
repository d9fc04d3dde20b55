/* Runs a program and says on stdout how many nanoseconds it took, and how many kilobytes it had in memory at most.
 *
 *   meter PROGRAM ARGUMENT…
 *
 * A small process of its own, because a child's peak counts what its parent had when it was forked. Exits with 0 if the
 * program did; the program's stdout goes nowhere, its stderr to ours. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    long long start = now();
    pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) {
        dup2(nowhere, STDIN_FILENO);
        dup2(nowhere, STDOUT_FILENO);
        execvp(arguments[1], arguments + 1);
        perror(arguments[1]);
        _exit(127);
    }
    int status;
    struct rusage usage;
    if (wait4(child, &status, 0, &usage) != child) return 1;
    printf("%lld %ld\n", now() - start, usage.ru_maxrss);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}
