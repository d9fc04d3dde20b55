internal import Glibc

/// Sends a command again when the TPM asks for that.
///
/// Over a bare connection nothing else does it: the TPM answers `TPM_RC_RETRY`, `TPM_RC_YIELDED` or `TPM_RC_TESTING`
/// without an effect (TPM 2.0 Part 2 section 6.6.3). swtpm answers `RETRY` to the first use of an object under
/// dictionary-attack protection after a start.
///
/// These answers carry no proof of the TPM's. An attacker on the bus who gives one to a wrong PIN makes the TPM count the
/// PIN again with each submission. So a connection sends one command again that proves a secret, once, and only for an
/// answer that says that the TPM did not start the command.
public final class ResubmittingTransport: TPMTransport {
    /// How often one command is sent at most that proves no secret.
    public static let maximumSubmissions = 8

    /// In microseconds, before the first resubmission.
    private static let pause: UInt32 = 2000
    /// In microseconds. A self-test on a discrete TPM takes up to about a second.
    private static let selfTestPause: UInt32 = 1_000_000

    private let inner: any TPMTransport
    private var hasResubmittedProof = false

    /// Sends over this transport.
    public init(_ inner: any TPMTransport) {
        self.inner = inner
    }

    public func exchange(_ command: [UInt8]) throws(TPMError) -> [UInt8] {
        var response = try inner.exchange(command)
        var pause = Self.pause
        for _ in 1..<Self.maximumSubmissions where Self.isCode(of: response, among: [.retry, .yielded, .testing]) {
            usleep(pause)
            pause *= 2
            response = try inner.exchange(command)
        }
        return response
    }

    public func exchange(proof command: [UInt8]) throws(TPMError) -> [UInt8] {
        let response = try inner.exchange(proof: command)
        guard !hasResubmittedProof, Self.isCode(of: response, among: [.retry, .testing]) else { return response }
        hasResubmittedProof = true
        usleep(Self.isCode(of: response, among: [.testing]) ? Self.selfTestPause : Self.pause)
        return try inner.exchange(proof: command)
    }

    public func close() {
        inner.close()
    }

    private static func isCode(of response: [UInt8], among codes: [ResponseCode]) -> Bool {
        guard let header = try? ResponseHeader(of: response) else { return false }
        return codes.contains(header.code)
    }
}
