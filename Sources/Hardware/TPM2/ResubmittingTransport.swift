internal import Glibc

/// Resubmits a command when the TPM requests it.
///
/// Without a resource manager the TPM answers `TPM_RC_RETRY`, `TPM_RC_YIELDED` or `TPM_RC_TESTING`
/// and leaves the resubmission to its client (TPM 2.0 Part 2 section 6.6.3). swtpm answers `RETRY`
/// to the first use of an object with dictionary-attack protection after a start.
///
/// These responses are not authenticated. An attacker on the bus who forges one after a wrong PIN
/// makes the TPM count the PIN again with each submission. A connection therefore resubmits at most
/// one command that proves a secret, once, and only for a response that says that the TPM did not
/// start the command.
package final class ResubmittingTransport: TPMTransport {
    /// The maximum number of submissions of a command that proves no secret.
    package static let maximumSubmissions = 8

    /// The time before the first resubmission, in microseconds.
    private static let pause: UInt32 = 2000
    /// In microseconds. A self-test of a discrete TPM takes up to about one second.
    private static let selfTestPause: UInt32 = 1_000_000

    private let inner: any TPMTransport
    private var hasResubmittedProof = false

    /// Sends commands over another transport.
    package init(_ inner: any TPMTransport) {
        self.inner = inner
    }

    package func exchange(_ command: [UInt8]) throws(TPMError) -> [UInt8] {
        var response = try inner.exchange(command)
        var pause = Self.pause
        for _ in 1..<Self.maximumSubmissions
        where Self.isCode(of: response, among: [.retry, .yielded, .testing]) {
            usleep(pause)
            pause *= 2
            response = try inner.exchange(command)
        }
        return response
    }

    package func exchange(proof command: [UInt8]) throws(TPMError) -> [UInt8] {
        let response = try inner.exchange(proof: command)
        guard !hasResubmittedProof, Self.isCode(of: response, among: [.retry, .testing]) else {
            return response
        }
        hasResubmittedProof = true
        usleep(Self.isCode(of: response, among: [.testing]) ? Self.selfTestPause : Self.pause)
        return try inner.exchange(proof: command)
    }

    package func close() {
        inner.close()
    }

    private static func isCode(of response: [UInt8], among codes: [ResponseCode]) -> Bool {
        guard let header = try? ResponseHeader(of: response) else { return false }
        return codes.contains(header.code)
    }
}
