public import FoundationEssentials

/// What a store of credentials needs to know.
public struct CredentialConfiguration: Sendable {
    /// Which claims of an ID token are copied into the metadata, where they can be searched, and read by whoever can
    /// read the store's file.
    public enum CopiedClaims: Hashable, Sendable {
        /// Every claim about the user. Those about the token itself (times, hashes, nonce) are never copied.
        case all
        /// These claims and no others.
        case only(Set<Claim>)
        /// No claim: credentials are found by their tags and ids only.
        case none

        func includes(_ name: String) -> Bool {
            switch self {
            case .all: !Claim.ofTheTokenItself.contains(name)
            case .only(let claims): claims.contains(Claim(rawValue: name))
            case .none: false
            }
        }
    }

    /// Which claims are copied.
    public var copiedClaims: CopiedClaims
    /// How many seconds before its end an access token is refreshed.
    public var graceInterval: TimeInterval
    /// Origins other than their issuers' to which tokens may be sent, for example `https://oauth2.example.com`. Endpoints
    /// must have their issuer's origin or one of these, unless the server names its issuer in authorization responses
    /// (RFC 9207).
    public var additionalOrigins: Set<String>
    /// The clock.
    public var clock: any CredentialClock

    /// A configuration; by default with all claims copied, and a grace of five minutes.
    public init(
        copiedClaims: CopiedClaims = .all, graceInterval: TimeInterval = 300,
        additionalOrigins: Set<String> = [],
        clock: any CredentialClock = SystemClock()
    ) {
        self.copiedClaims = copiedClaims
        self.graceInterval = graceInterval
        self.additionalOrigins = additionalOrigins
        self.clock = clock
    }
}
