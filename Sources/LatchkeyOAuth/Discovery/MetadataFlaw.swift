internal import Latchkey

/// Why a server's metadata is not accepted.
package enum MetadataFlaw: Error, Hashable, Sendable {
    /// It is another issuer's than the configured one.
    case issuer(String, expected: String)
    /// It sends secrets to an origin that is neither the issuer's nor configured.
    case origin(String, issuer: String)

    /// The cause, as a clause.
    package var reason: String {
        switch self {
        case .issuer(let issuer, let expected):
            "the server calls itself ‘\(String(oneLine: issuer, limit: 256))’ and not ‘\(expected)’"
        case .origin(let origin, let issuer):
            "the server ‘\(issuer)’ names an endpoint at ‘\(origin)’, another origin, and does not announce that its "
                + "authorization responses name their issuer (RFC 9207)"
        }
    }

    /// The next step.
    package var recovery: String {
        switch self {
        case .issuer: "Check the server's address."
        case .origin(_, let issuer):
            "Ask the operator of ‘\(String(oneLine: issuer, limit: 256))’ whether that origin is the server's own. Only then list it "
                + "(trusted-origins, or ‘additionalOrigins’ in a program): otherwise the server gets another server's login codes."
        }
    }
}
