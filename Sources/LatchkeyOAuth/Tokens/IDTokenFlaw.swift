/// Why an ID token is not accepted.
package enum IDTokenFlaw: Error, Hashable, Sendable {
    case unreadable
    /// An extension that must be understood is not (RFC 7515 section 4.1.11).
    case criticalExtension
    case signature
    /// It names another issuer: this one.
    case issuer(String)
    case audience
    /// It has expired or comes from the future, although the clocks agree as far as anybody knows.
    case time
    /// This machine's clock is ahead of the server's by these seconds, behind when negative.
    case clock(secondsAhead: Double)
    case nonce
    case accessToken
    /// The user logged in before it was asked for, or nobody says when.
    case login

    /// What is wrong with it, to go on after "the server's ID token".
    package var reason: String {
        switch self {
        case .unreadable: "can't be read"
        case .criticalExtension: "wants an extension that isn't known"
        case .signature: "is not signed by the server"
        case .issuer(let issuer): "comes from ‘\(issuer)’"
        case .audience: "is for another program"
        case .time, .clock: "is not valid now"
        case .nonce: "belongs to another login"
        case .accessToken: "belongs to another access token"
        case .login: "is not of a login that was made for it"
        }
    }
}
