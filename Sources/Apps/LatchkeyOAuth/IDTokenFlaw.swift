internal import FoundationEssentials
package import Latchkey
package import LatchkeyJOSE

/// Why an ID token is not accepted.
package enum IDTokenFlaw: Error, Hashable, Sendable {
    /// It is not a compact JWS of JSON. The text is the cause, as a clause.
    case unreadable(String)
    /// This claim is missing or has a wrong type. The text continues the clause "the claim".
    case claim(String, String)
    /// It has a critical extension that is not supported (RFC 7515 section 4.1.11).
    case criticalExtension
    /// The server signs with these algorithms, and none is supported.
    case algorithms([String])
    /// The server's key set has no usable key for the signature.
    case noKey(MissingKey)
    /// The server's key does not verify the signature.
    case signature
    /// It names another issuer than the server's metadata.
    case issuer(String, expected: String)
    case audience
    /// It has expired by the server's clock.
    case expired
    /// It has expired by this machine's clock. The server's is not known.
    case expiredOrWrongClock
    case notYetValid
    /// It was issued too long ago.
    case tooOld
    /// This machine's clock is ahead of the server's by these seconds; behind when negative.
    case clock(secondsAhead: Double)
    case nonce
    /// This claim is not the hash of the access token, code or device secret that came with the ID
    /// token.
    case hash(String)
    /// The user logged in too early, or the token has no `auth_time`.
    case login

    package init(_ flaw: JWSFlaw) {
        self =
            switch flaw.code {
            case .unreadable: .unreadable(flaw.detail)
            case .criticalExtension: .criticalExtension
            case .algorithm(let name): .algorithms([name])
            case .noKey(let missing): .noKey(missing)
            case .signature: .signature
            }
    }

    /// Whether other keys of the server could verify the signature.
    var mayNeedOtherKeys: Bool {
        switch self {
        case .noKey, .signature: true
        case .unreadable, .claim, .criticalExtension, .algorithms, .issuer, .audience, .expired,
            .expiredOrWrongClock, .notYetValid, .tooOld, .clock, .nonce, .hash, .login:
            false
        }
    }

    /// The cause, as a clause.
    package var reason: String {
        let token = "the server's ID token"
        switch self {
        case .unreadable(let cause): return "\(token) can't be read: \(cause)"
        case .claim(let name, let problem):
            return "\(token) can't be used: the claim ‘\(name)’ \(problem)"
        case .criticalExtension: return "\(token) has a critical extension that is not supported"
        case .algorithms(let names):
            let quoted = names.prefix(8).map { "‘\(String(oneLine: $0, limit: 32))’" }
            return "the server signs ID tokens with \(quoted.joined(separator: ", ")), which "
                + "is not supported; supported are \(SignatureAlgorithm.list)"
        case .noKey(let missing):
            let key =
                missing.kid.map { "the key ‘\(String(oneLine: $0, limit: 64))’" }
                ?? "a key without a name"
            let skipped = missing.skipped.prefix(8).map(\.text).joined(separator: "; ")
            return "\(token) is signed with \(key), and the server's key set has no such usable key"
                + (skipped.isEmpty ? "" : " (not usable: \(skipped))")
        case .signature: return "\(token) is not signed by the server: the signature is wrong"
        case .issuer(let issuer, let expected):
            let names = [issuer, expected].map { "‘\(String(oneLine: $0, limit: 256))’" }
            return "\(token) comes from \(names[0]), and the server's metadata names \(names[1])"
        case .audience: return "\(token) is not for this program alone"
        case .expired: return "\(token) has expired by the server's own clock"
        case .expiredOrWrongClock: return "\(token) has expired, or one of the clocks is wrong"
        case .notYetValid: return "\(token) is not valid yet, or one of the clocks is wrong"
        case .tooOld: return "\(token) was issued too long ago, or one of the clocks is wrong"
        case .clock(let ahead):
            return "\(token) is not valid now: this machine's clock is \(Int(abs(ahead))) seconds "
                + "\(ahead > 0 ? "ahead of" : "behind") the server's"
        case .nonce: return "\(token) belongs to another login"
        case .hash(let claim):
            return "\(token) has a claim ‘\(claim)’ that does not match the token, code or device "
                + "secret"
        case .login: return "\(token) does not come from a new login"
        }
    }

    /// The next step, as a sentence.
    package var recovery: Recovery {
        switch self {
        case .clock: "Set the clock (for example with ‘timedatectl set-ntp true’) and try again."
        case .expiredOrWrongClock, .notYetValid, .tooOld:
            "Check this machine's clock, for example with ‘timedatectl’, then log in again."
        case .algorithms:
            "Ask the server's operator to sign ID tokens with a supported algorithm."
        case .noKey:
            "Log in again: the server may have changed its keys. If it happens again, show this text to the server's operator."
        case .unreadable, .claim, .criticalExtension, .expired:
            "Show this text to the server's operator."
        case .login: "Log in again, and enter your password when the page asks for it."
        case .issuer, .audience, .nonce, .hash:
            "Log in again. If it happens again, show this text to the server's operator."
        case .signature: "Log in again. If it happens again, do not trust the server."
        }
    }
}
