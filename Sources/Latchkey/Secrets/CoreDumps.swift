internal import Glibc

/// Keeps the process's memory out of core dumps.
public enum CoreDumps {
    /// Forbids dumps of this process until it ends. Call it first in a program that handles secrets and must stay
    /// debuggable; ``ProcessMemory/protect()`` does this and more.
    ///
    /// Sets the size limit of dumps to 0 bytes, which stops the kernel, and empties the process's dump filter
    /// (`core(5)`), which dumps that a pipe handler or a debugger makes respect.
    public static func forbid() {
        var limit = rlimit(rlim_cur: 0, rlim_max: 0)
        setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
        // Where /proc is not mounted, no handler can look at the process either.
        let filter = open("/proc/self/coredump_filter", O_WRONLY | O_CLOEXEC)
        guard filter >= 0 else { return }
        _ = write(filter, "0", 1)
        close(filter)
    }
}
