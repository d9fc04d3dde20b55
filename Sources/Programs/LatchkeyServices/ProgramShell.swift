internal import Glibc
internal import Latchkey
internal import LatchkeyPKCS11

/// The start and the end of each program.
package enum ProgramShell {
    /// Protects the standard streams and the memory, and records the inherited descriptors. Call it
    /// first, before the arguments are parsed.
    package static func start() {
        openStandardStreams()
        InheritedDescriptors.note()
        ProcessMemory.protect()
        // Writing to a closed pipe is an error instead of a signal. A handler instead of SIG_IGN,
        // which child processes would inherit.
        signal(SIGPIPE) { _ in }
    }

    /// Ends the process without the exit handlers of PKCS#11 modules and OpenSSL: they free what a
    /// token's thread may still use, which crashes (SoftHSMv2#635, openssl#22508). Locks the cards
    /// that a policy keeps unlocked.
    package static func end(_ status: ExitStatus) -> Never {
        PKCS11Keystore.lockTokensAtExit()
        fflush(nil)
        _exit(status.rawValue)
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
