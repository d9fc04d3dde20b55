/// A TPM 2.0 behind a transport. It executes a `TPMCommand`: a value that is named as in TPM 2.0
/// Part 3.
///
/// Not `Sendable`: the calls block, so use it on a thread that may block. Methods that lend an
/// object or a session to a closure remove it from the TPM when the closure returns or throws.
package final class TPM {
    /// The maximum size of a command or response in bytes. The buffers of all TPMs hold this much
    /// (PC Client profile section 4.6.1).
    package static let maximumMessageBytes = 4096

    let transport: any TPMTransport

    /// Uses the TPM behind a transport.
    package init(_ transport: any TPMTransport) {
        self.transport = transport
    }
}
