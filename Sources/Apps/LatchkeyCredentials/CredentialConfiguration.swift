public import FoundationEssentials

/// The configuration of a credential store.
public struct CredentialConfiguration: Sendable {
    /// Which claims of an ID token are copied into the metadata. Copied claims can be searched, and
    /// every program that can read the store's file can read them.
    public enum CopiedClaims: Hashable, Sendable {
        /// Every claim. In all cases, a claim of more than 64 KiB of JSON or 1,000 array elements
        /// is not copied.
        case all
        /// Only the claims of these names.
        case only(Set<String>)
        /// No claim. Credentials are found by their tags and ids only.
        case none

        func includes(_ name: String) -> Bool {
            switch self {
            case .all: true
            case .only(let claims): claims.contains(name)
            case .none: false
            }
        }
    }

    let copiedClaims: CopiedClaims
    let graceInterval: TimeInterval
    let additionalOrigins: Set<String>
    package var clock: any CredentialClock = SystemClock()

    /// - Parameters:
    ///   - copiedClaims: Which claims are copied.
    ///   - graceInterval: How many seconds before its expiry an access token is refreshed.
    ///   - additionalOrigins: Origins other than their issuers' that tokens may be sent to, for
    ///     example `https://oauth2.example.com`. Endpoints must have their issuer's origin or one
    ///     of these, unless the server names its issuer in authorization responses (RFC 9207).
    public init(
        copiedClaims: CopiedClaims = .all, graceInterval: TimeInterval = 300,
        additionalOrigins: Set<String> = []
    ) {
        self.copiedClaims = copiedClaims
        self.graceInterval = graceInterval
        self.additionalOrigins = additionalOrigins
    }
}

/// The clock of a credential store, which tests can replace.
package protocol CredentialClock: Sendable {
    /// The current time.
    var now: Date { get }

    /// Waits. Throws if the task is cancelled.
    func sleep(for duration: Duration) async throws
}

/// The system's clock.
private struct SystemClock: CredentialClock {
    var now: Date { Date() }

    func sleep(for duration: Duration) async throws {
        try await Task.sleep(for: duration)
    }
}
