internal import CPlatform
internal import Glibc

/// Protects the memory of this process from other processes of the same user.
public enum ProcessMemory {
    /// Denies every process without the capability `CAP_SYS_PTRACE` access to this process's
    /// memory, and disables core dumps. Call it first in a program that handles secrets.
    ///
    /// Makes the process non-dumpable (`prctl(2)`, `PR_SET_DUMPABLE`), as `ssh-agent` does. Other
    /// processes of the user can then no longer attach a debugger, read `/proc/PID/mem` or the
    /// environment, or open the process's file descriptors. root still can.
    ///
    /// The effect ends in a program that this process executes. It has two costs for the process
    /// itself: the user's debuggers cannot attach, and files of `/proc/self` with mode 0400, for
    /// example `environ`, cannot be opened.
    ///
    /// An attacker with the user's rights can still start the program under a debugger, or with a
    /// preloaded library.
    public static func protect() {
        // First, because the filter in /proc belongs to root afterwards.
        forbidCoreDumps()
        // Fails only for an invalid argument.
        _ = latchkey_process_forbid_dumping()
    }

    /// Sets the size limit of core dumps to 0 bytes, which stops the kernel, and empties the
    /// process's dump filter (`core(5)`), which stops pipe handlers and debuggers.
    private static func forbidCoreDumps() {
        var limit = rlimit(rlim_cur: 0, rlim_max: 0)
        setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
        // If /proc is not mounted, no handler can read the process either.
        let filter = open("/proc/self/coredump_filter", O_WRONLY | O_CLOEXEC)
        guard filter >= 0 else { return }
        _ = write(filter, "0", 1)
        close(filter)
    }
}
