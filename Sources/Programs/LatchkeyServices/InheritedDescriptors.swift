internal import Glibc
package import Latchkey
package import LatchkeyPresence

/// The descriptors that the parent process passed to the program. Later ones are the program's own
/// files and cannot be sources of PINs.
package enum InheritedDescriptors {
    private static let count: Int32 = 256
    private static let open = Set((0..<count).filter { fcntl($0, F_GETFD) >= 0 })

    /// Records the open descriptors. Call this before the program opens a file.
    static func note() { _ = open }

    package static func contains(_ descriptor: Int32) -> Bool {
        descriptor < count ? open.contains(descriptor) : fcntl(descriptor, F_GETFD) >= 0
    }
}

extension PINSource {
    /// Checks that a descriptor was open when the program started, and is open for reading. Other
    /// sources pass.
    ///
    /// - Throws: `KeystoreError` with code `invalidInput`.
    package func checkDescriptor() throws(KeystoreError) {
        guard case .descriptor(let number) = self else { return }
        guard InheritedDescriptors.contains(number) else {
            throw .invalidPINSource(
                "descriptor \(number) was not open when the program started",
                recovery:
                    "Open the descriptor (3<file for fd:3), or set another source with --pin-source."
            )
        }
        guard fcntl(number, F_GETFL) & O_ACCMODE != O_WRONLY else {
            let name = [
                STDOUT_FILENO: ", which is standard output,",
                STDERR_FILENO: ", which is standard error,",
            ][
                number]
            throw .invalidPINSource(
                "descriptor \(number)\(name ?? "") is open for writing only",
                recovery:
                    "Use standard input (fd:0), or a descriptor from 3: --pin-source fd:3, with 3<file."
            )
        }
    }
}
