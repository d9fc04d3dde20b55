package import Latchkey

/// The error codes of a facade. The OAuth client throws `LatchkeyError` with these codes.
package protocol OAuthErrorCode: LatchkeyErrorCode where Details == ServerRefusal {
    /// The code for a failure.
    init(_ failure: OAuthFailure)
}

extension LatchkeyError where ErrorCode: OAuthErrorCode {
    /// The facade's error for a failure, with the facade's code and the failure's texts.
    package init(_ failure: OAuthFailure) {
        let (reason, recovery) = failure.explanation
        self.init(
            code: ErrorCode(failure), reason: reason, recovery: recovery,
            underlying: failure.underlying,
            details: failure.refusal)
    }

    /// The error for a response that is not the expected JSON.
    ///
    /// - Parameters:
    ///   - cause: A clause that names the member.
    ///   - path: The path of the request; nil if it is not known.
    static func unreadable(_ cause: String, from path: String? = nil) -> Self {
        let (reason, recovery) = OAuthFailure.malformed.explanation
        let place = path.map { " (from ‘\(String(oneLine: $0, limit: 128))’)" } ?? ""
        return Self(
            code: ErrorCode(.malformed),
            reason: "\(reason): \(String(oneLine: cause, limit: 128))\(place)",
            recovery: recovery)
    }
}

/// Why a request to a server, or a login in the browser, has no usable result.
package enum OAuthFailure: Error, Sendable {
    /// The configured address is neither `https` nor on a loopback host.
    case invalidAddress(String)
    /// The transport received no response.
    case transport(CommonError)
    /// The status is outside 200...299.
    case refused(ServerRefusal)
    /// The response does not follow the protocol.
    case malformed
    case metadata(MetadataFlaw)
    /// The server's metadata has no such endpoint.
    case missingEndpoint(ProviderMetadata.EndpointName)
    case idToken(IDTokenFlaw)
    /// The token response has no access token that can be used.
    case tokens(TokenResponseFlaw)
    case authorization(AuthorizationFailure)
    /// A key cannot be proven to be in hardware.
    case attestation(AttestationRefusal)
    /// A request has no proof of the key to which tokens are bound, or the server refused it.
    case proof(DPoPFailure)

    /// The server's refusal, if that is the failure.
    package var refusal: ServerRefusal? {
        switch self {
        case .refused(let refusal): refusal
        case .authorization(.refused(let error)): ServerRefusal(error, status: nil)
        case .proof(let failure): failure.refusal
        case .invalidAddress, .transport, .malformed, .metadata, .missingEndpoint, .idToken,
            .tokens, .authorization, .attestation:
            nil
        }
    }

    fileprivate var underlying: UnderlyingError? {
        switch self {
        case .transport(let error): error.underlying
        case .authorization(.noPort(_, let cause)): UnderlyingError(layer: "socket", text: cause)
        case .proof(let failure): failure.underlying
        case .invalidAddress, .refused, .malformed, .metadata, .missingEndpoint, .idToken, .tokens,
            .authorization, .attestation:
            nil
        }
    }

    /// The cause, as a clause, and the next step, as a sentence.
    fileprivate var explanation: (reason: String, recovery: Recovery) {
        let checkServer: Recovery =
            "Check the server's address, and that it supports OpenID Connect."
        switch self {
        case .invalidAddress(let address) where !address.contains("://"):
            return (
                "‘\(address)’ has no ‘https://’ before the host, or ‘http://’ for a server on this machine",
                "Write the whole address."
            )
        case .invalidAddress(let address):
            return (
                "‘\(address)’ is neither an https address nor on this machine",
                "Correct the address."
            )
        case .transport(let error): return (error.reason, error.recoveryAction)
        case .refused(let refusal): return (refusal.reason, refusal.recovery)
        case .malformed: return ("the server's response does not follow the protocol", checkServer)
        case .metadata(let flaw): return flaw.explanation
        case .missingEndpoint(let name):
            let recovery: Recovery =
                switch name {
                case .revocation: "Remove the tokens from this device."
                case .introspection: "Request the user's data instead."
                case .deviceAuthorization:
                    Recovery(
                        "Log in with a browser that reaches this machine.", .forwardLogin)
                case .userInfo: "Use the claims of the ID token."
                case .attestation: "Nothing has to be done: this server takes no proofs about TPMs."
                default: checkServer
                }
            return ("the server's metadata has no usable ‘\(name.rawValue)’", recovery)
        case .idToken(let flaw): return (flaw.reason, flaw.recovery)
        case .tokens(let flaw): return (flaw.reason, flaw.recovery)
        case .authorization(let failure): return failure.explanation
        case .attestation(let refusal): return refusal.explanation
        case .proof(let failure): return failure.explanation
        }
    }
}
