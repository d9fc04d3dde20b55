internal import CProcess

/// Protects the memory of this process from other processes of the same user.
public enum ProcessMemory {
    /// Refuses access to this process's memory to every process without the capability `CAP_SYS_PTRACE`, and forbids core
    /// dumps. Call it first in a program that handles secrets.
    ///
    /// Makes the process non-dumpable (`prctl(2)`, `PR_SET_DUMPABLE`), as `ssh-agent` does, and calls
    /// ``CoreDumps/forbid()``. Other processes of the user can then no longer attach a debugger, read `/proc/PID/mem` or
    /// the environment, or open the process's file descriptors. root still can.
    ///
    /// The effect ends in a program that this process executes. It has two costs for the process itself: the user's
    /// debuggers can't attach, and files of `/proc/self` with mode 0400, for example `environ`, can't be opened.
    ///
    /// An attacker with the user's rights can still start the program under a debugger, or with a preloaded library.
    public static func protect() {
        // First, while the filter in /proc still belongs to the user.
        CoreDumps.forbid()
        // It fails only for an invalid argument.
        _ = latchkey_process_forbid_dumping()
    }
}
