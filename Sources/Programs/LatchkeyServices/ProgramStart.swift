internal import Glibc
internal import Latchkey

/// The start of a program that handles secrets.
package enum ProgramStart {
    /// Protects the standard streams and the memory, and records the inherited descriptors. Call it
    /// first, before the arguments are parsed.
    package static func secure() {
        openStandardStreams()
        InheritedDescriptors.note()
        ProcessMemory.protect()
        // Writing to a closed pipe is an error instead of a signal. A handler instead of SIG_IGN,
        // which child processes would inherit.
        signal(SIGPIPE) { _ in }
    }

    /// Opens `/dev/null` for those of the descriptors 0, 1 and 2 that are closed.
    ///
    /// Otherwise the next opened file or socket would become standard output or standard error, and
    /// text would overwrite the store or reach the TPM.
    private static func openStandardStreams() {
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) < 0 {
            // open(2) returns the lowest free descriptor, which is this one. Writing to standard
            // output still fails.
            _ = open("/dev/null", descriptor == STDERR_FILENO ? O_WRONLY : O_RDONLY)
        }
    }
}
