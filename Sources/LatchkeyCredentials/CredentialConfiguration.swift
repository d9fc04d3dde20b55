public import FoundationEssentials

/// The configuration of a credential store.
public struct CredentialConfiguration: Sendable {
    /// Which claims of an ID token are copied into the metadata. Copied claims can be searched, and every program that can
    /// read the store's file can read them.
    public enum CopiedClaims: Hashable, Sendable {
        /// Every claim about the user. Claims about the token (times, hashes, nonce) are never copied.
        case all
        /// Only these claims.
        case only(Set<Claim>)
        /// No claim. Credentials are found by their tags and ids only.
        case none

        func includes(_ name: String) -> Bool {
            switch self {
            case .all: !Claim.aboutTheToken.contains(name)
            case .only(let claims): claims.contains(Claim(rawValue: name))
            case .none: false
            }
        }
    }

    /// Which claims are copied.
    public var copiedClaims: CopiedClaims
    /// How many seconds before its expiry an access token is refreshed.
    public var graceInterval: TimeInterval
    /// Origins other than their issuers' that tokens may be sent to, for example `https://oauth2.example.com`. Endpoints
    /// must have their issuer's origin or one of these, unless the server names its issuer in authorization responses
    /// (RFC 9207).
    public var additionalOrigins: Set<String>
    package var clock: any CredentialClock = SystemClock()

    /// By default, all claims are copied, and tokens are refreshed five minutes before their expiry.
    public init(
        copiedClaims: CopiedClaims = .all, graceInterval: TimeInterval = 300, additionalOrigins: Set<String> = []
    ) {
        self.copiedClaims = copiedClaims
        self.graceInterval = graceInterval
        self.additionalOrigins = additionalOrigins
    }

    package init(
        copiedClaims: CopiedClaims = .all, additionalOrigins: Set<String> = [], clock: any CredentialClock
    ) {
        self.init(copiedClaims: copiedClaims, additionalOrigins: additionalOrigins)
        self.clock = clock
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
package struct SystemClock: CredentialClock {
    package init() {}

    package var now: Date { Date() }

    package func sleep(for duration: Duration) async throws {
        try await Task.sleep(for: duration)
    }
}
