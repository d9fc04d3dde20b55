/// A TPM 2.0 behind a connection: one method per command, named as in TPM 2.0 Part 3.
///
/// Not `Sendable`: its calls block, so it belongs on a thread that may block. Objects and sessions are lent to
/// closures and leave the TPM with them on every path.
public final class TPM {
    /// The most bytes in a command or response: what every TPM's buffers hold (PC Client profile section 4.6.1).
    public static let maximumMessageBytes = 4096

    let transport: any TPMTransport

    /// A TPM behind this transport.
    public init(_ transport: any TPMTransport) {
        self.transport = transport
    }
}
