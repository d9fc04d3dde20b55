/// What is wrong with an ID token (OpenID Connect Core section 3.1.3.7).
public enum IDTokenFlaw: String, Error, Hashable, Sendable, CaseIterable {
    /// It is no JSON Web Token with the claims that every ID token has.
    case structure
    /// It comes from another issuer.
    case issuer
    /// The issuer is neither `https` nor on this machine.
    case scheme
    /// It is for another client.
    case audience
    /// It is signed with something else than RS256 or ES256.
    case algorithm
    /// It has expired.
    case expiration
    /// It was issued too long ago for a new token, or in the future.
    case issuedTime
    /// It belongs to another sign-in.
    case nonce
    /// The person was authenticated longer ago than was asked for, or nobody knows when.
    case authenticationTime
    /// It is about somebody else.
    case subject
    /// It belongs to another access token.
    case accessTokenHash
    /// It belongs to another device secret.
    case deviceSecretHash
    /// None of the issuer's keys signed it.
    case signature

    var reason: String {
        switch self {
        case .structure: "can't be read"
        case .issuer: "comes from somebody else"
        case .scheme: "comes from an address that nothing vouches for"
        case .audience: "is for another program"
        case .algorithm: "is signed in a way that isn't accepted"
        case .expiration: "has expired"
        case .issuedTime: "was not issued just now"
        case .nonce: "belongs to another sign-in"
        case .authenticationTime: "is from a sign-in too long ago"
        case .subject: "is about somebody else"
        case .accessTokenHash: "belongs to another access token"
        case .deviceSecretHash: "belongs to another device secret"
        case .signature: "is not signed by the server"
        }
    }
}
