internal import Glibc

/// Sends a command again when the TPM asks for that.
///
/// Over a bare connection nobody else does it: the TPM answers `TPM_RC_RETRY`, `TPM_RC_YIELDED` or `TPM_RC_TESTING`
/// having done nothing (TPM 2.0 Part 1 section "Response Code Details"). swtpm answers `RETRY` to the first use of an
/// object under dictionary-attack protection after a start.
public final class ResubmittingTransport: TPMTransport {
    /// How often one command is sent at most.
    public static let maximumSubmissions = 8

    private let inner: any TPMTransport

    /// Sends over this transport.
    public init(_ inner: any TPMTransport) {
        self.inner = inner
    }

    public func exchange(_ command: [UInt8]) throws(TPMError) -> [UInt8] {
        var response = try inner.exchange(command)
        var pause: UInt32 = 2000
        for _ in 1..<Self.maximumSubmissions where wantsItAgain(response) {
            // In microseconds; a self-test on a discrete TPM takes up to about a second.
            usleep(pause)
            pause *= 2
            response = try inner.exchange(command)
        }
        return response
    }

    public func close() {
        inner.close()
    }

    private func wantsItAgain(_ response: [UInt8]) -> Bool {
        guard let header = try? ResponseHeader(of: response) else { return false }
        return [.retry, .yielded, .testing].contains(header.code)
    }
}
