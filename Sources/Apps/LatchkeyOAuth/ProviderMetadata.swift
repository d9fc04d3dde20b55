internal import FoundationEssentials
internal import HTTPTypes
package import Latchkey
package import LatchkeyJOSE

/// The members of a server's metadata that Latchkey uses (OpenID Connect Discovery 1.0 section 3,
/// RFC 8414 section 2).
///
/// No token is sent to an address that is not an ``Endpoint``. Decoding fails if it is that of an
/// endpoint that decides what Latchkey does. One of ``EndpointName/dispensable`` is skipped.
package struct ProviderMetadata: Decodable, Hashable, Sendable {
    package let issuer: String
    /// Whether each authorization response names the issuer (RFC 9207 section 3).
    package let sendsIssuer: Bool
    /// Whether the authorization endpoint takes a `login_hint` with a user's id. Deployed Authgear
    /// servers fail on one.
    package let takesUserIDHint: Bool
    /// Whether a biometric request must name the server and the client. Deployed Authgear servers
    /// ignore these claims.
    package let requiresAudience: Bool
    /// Whether the server keeps shares of a locker's level keys.
    package let hasLevelShares: Bool
    /// The maximum scopes of a locker's background access.
    package let backgroundScopes: [String]
    /// Whether a client secret is sent in the form and not with HTTP Basic.
    package let takesSecretInForm: Bool
    /// The formats of attestations that the server verifies: `tpm`, `piv`. Empty for a server that
    /// does not announce support: it gets no attestation and no certificate.
    package let attestationFormats: Set<String>
    /// The requirement for new keys, in the server's words.
    package let requiredAttestation: String
    /// The algorithms with which the server signs ID tokens; empty if it does not state them.
    package let idTokenAlgorithms: [String]
    /// Whether the server binds tokens to a key with proofs that Latchkey makes (RFC 9449 section
    /// 5.1).
    package let bindsTokens: Bool
    /// All members, as the server sent them.
    package let members: [String: JSONValue]
    private let endpoints: [EndpointName: Endpoint]

    /// The members that are endpoints.
    package enum EndpointName: String, CaseIterable, CodingKey, Sendable {
        case authorization = "authorization_endpoint"
        case token = "token_endpoint"
        case keys = "jwks_uri"
        case userInfo = "userinfo_endpoint"
        case revocation = "revocation_endpoint"
        case introspection = "introspection_endpoint"
        /// Issues the codes of a login with a browser on any device (RFC 8628 section 4).
        case deviceAuthorization = "device_authorization_endpoint"
        /// Removes a biometric identity. Deployed Authgear servers have no such endpoint.
        case biometricRemoval = "biometric_removal_endpoint"
        case lockerEnrolment = "locker_enrolment_endpoint"
        case attestation = "attestation_endpoint"

        /// The endpoints that only one operation uses, which names a missing one.
        static let dispensable: Set<EndpointName> = [
            .userInfo, .revocation, .introspection, .deviceAuthorization,
        ]
    }

    private enum CodingKeys: String, CodingKey {
        case issuer
        case sendsIssuer = "authorization_response_iss_parameter_supported"
        case authenticationMethods = "token_endpoint_auth_methods_supported"
        case takesUserIDHint = "biometric_login_hint_supported"
        case requiresAudience = "biometric_audience_required"
        case hasLevelShares = "locker_level_shares_supported"
        case backgroundScopes = "locker_background_scopes_supported"
        case attestationFormats = "attestation_formats_supported"
        case requiredAttestation = "attestation_required"
        case idTokenAlgorithms = "id_token_signing_alg_values_supported"
        case proofAlgorithms = "dpop_signing_alg_values_supported"
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        // An announcement of another type announces nothing.
        func flag(_ key: CodingKeys) -> Bool {
            (try? container.decode(Bool.self, forKey: key)) ?? false
        }
        func list(_ key: CodingKeys) -> [String] {
            (try? container.decode([String].self, forKey: key)) ?? []
        }
        members = try [String: JSONValue](from: decoder)
        issuer = try container.decode(String.self, forKey: .issuer)
        sendsIssuer = flag(.sendsIssuer)
        takesUserIDHint = flag(.takesUserIDHint)
        requiresAudience = flag(.requiresAudience)
        hasLevelShares = flag(.hasLevelShares)
        backgroundScopes = list(.backgroundScopes)
        // Without this member, the method is HTTP Basic.
        let methods = list(.authenticationMethods)
        takesSecretInForm =
            !methods.contains("client_secret_basic") && methods.contains("client_secret_post")
        let named = try decoder.container(keyedBy: EndpointName.self)
        var endpoints: [EndpointName: Endpoint] = [:]
        for name in EndpointName.allCases {
            do {
                endpoints[name] = try named.decodeIfPresent(Endpoint.self, forKey: name)
            } catch {
                guard EndpointName.dispensable.contains(name) else { throw error }
            }
        }
        self.endpoints = endpoints
        attestationFormats =
            endpoints[.attestation] == nil ? [] : Set(list(.attestationFormats))
        requiredAttestation =
            try container.decodeIfPresent(String.self, forKey: .requiredAttestation)
            ?? AttestationLevel.none.rawValue
        // Only for an early message: the validation of an ID token decides.
        idTokenAlgorithms = list(.idTokenAlgorithms)
        bindsTokens = list(.proofAlgorithms).contains(DPoPKey.algorithm)
        for required in [EndpointName.token, .keys] where endpoints[required] == nil {
            throw DecodingError.keyNotFound(
                required, .init(codingPath: [], debugDescription: "no endpoint"))
        }
    }

    package subscript(name: EndpointName) -> Endpoint? { endpoints[name] }

    /// The endpoint that issues challenges. It has the origin of the authorization endpoint.
    package var challenge: Endpoint? {
        self[.authorization]?.onSameOrigin(path: "/oauth2/challenge")
    }

    /// The endpoint that issues the tokens with which an app opens the server's pages. It has the
    /// origin of the authorization endpoint.
    package var appSessionToken: Endpoint? {
        self[.authorization]?.onSameOrigin(path: "/oauth2/app_session_token")
    }

    /// Checks that none of the endpoints can get secrets of a login at another server.
    ///
    /// A malicious server can name an honest server's authorization endpoint and its own token
    /// endpoint. It then gets the honest server's code and verifier (RFC 9207 section 1). The
    /// issuer in the authorization response prevents that. Without it, all endpoints must have the
    /// issuer's origin or a configured one.
    ///
    /// - Parameters:
    ///   - endpoints: The endpoints that get secrets.
    ///   - additionalOrigins: Other origins that the configuration lists.
    package func check(secretsGoTo endpoints: [Endpoint], additionalOrigins: Set<String>)
        throws(MetadataFlaw)
    {
        guard !sendsIssuer else { return }
        if let other = foreignOrigin(of: endpoints, additionalOrigins) {
            throw .origin(other, issuer: issuer)
        }
    }

    /// Checks that the endpoints and pages of a login on any device are of the server, also if its
    /// authorization responses name their issuer: such a login has none.
    package func check(deviceCodesGoTo endpoints: [Endpoint], additionalOrigins: Set<String>)
        throws(MetadataFlaw)
    {
        if let other = foreignOrigin(of: endpoints, additionalOrigins) {
            throw .deviceOrigin(other, issuer: issuer)
        }
    }

    /// The first origin that is neither the issuer's nor configured.
    private func foreignOrigin(of endpoints: [Endpoint], _ additionalOrigins: Set<String>)
        -> String?
    {
        let trusted = Set(
            ([issuer] + additionalOrigins).compactMap { Endpoint($0)?.canonicalOrigin })
        return endpoints.map(\.canonicalOrigin).first { !trusted.contains($0) }
    }
}

extension ProviderMetadata {
    /// Reads a server's metadata, and checks that it names the server (RFC 8414 section 3.3).
    ///
    /// The place is that of OpenID Connect Discovery section 4.1; if there is nothing (404), that of
    /// RFC 8414 section 3.1, where the issuer's path comes last.
    ///
    /// - Parameters:
    ///   - address: The configured server. A slash at its end makes no difference.
    ///   - clientID: The client whose requirement for attestation to read; nil for the server's.
    package static func read<Code>(
        at address: String, for clientID: String? = nil, over connection: ServerConnection<Code>
    ) async throws(LatchkeyError<Code>) -> ProviderMetadata {
        guard let endpoint = Endpoint(address), !endpoint.hasQuery else {
            throw LatchkeyError(.invalidAddress(address))
        }
        let query = clientID.map { "?" + FormEncoding.encode([("client_id", $0)]) } ?? ""
        let path = "/.well-known/oauth-authorization-server" + endpoint.appending("").path
        var response = try await connection.send(
            endpoint.appending("/.well-known/openid-configuration" + query).request(.get))
        if response.status == 404 {
            let other = try await connection.send(
                endpoint.onSameOrigin(path: path + query).request(.get))
            guard other.isSuccess else {
                throw LatchkeyError<Code>(.refused(response.refusal)).with(
                    reason: "there is no metadata of a server at ‘\(bare(address))’ (status 404)",
                    recovery: "Check the server's address, also its path.")
            }
            response = other
        }
        let metadata = try response.successful().json(ProviderMetadata.self)
        guard isSame(metadata.issuer, address) else {
            throw LatchkeyError(
                .metadata(.issuer(metadata.issuer, expected: String(bare(address)))))
        }
        return metadata
    }

    /// Whether two texts name the same issuer. People write its address with or without a slash at
    /// the end.
    package static func isSame(_ issuer: String, _ other: String) -> Bool {
        bare(issuer) == bare(other)
    }

    private static func bare(_ text: String) -> Substring {
        text.hasSuffix("/") ? text.dropLast() : text[...]
    }
}

extension Endpoint {
    /// The origin without the scheme's default port.
    package var canonicalOrigin: String {
        let port = scheme == "https" ? ":443" : ":80"
        return origin.hasSuffix(port) ? String(origin.dropLast(port.count)) : origin
    }
}

/// Why a server's metadata is not accepted.
package enum MetadataFlaw: Error, Hashable, Sendable {
    /// It names another issuer than the configured one.
    case issuer(String, expected: String)
    /// It sends secrets to an origin that is neither the issuer's nor configured.
    case origin(String, issuer: String)
    /// An endpoint or page of a login on any device is at an origin that is neither the issuer's nor
    /// configured.
    case deviceOrigin(String, issuer: String)

    /// The cause, as a clause, and the next step, as a sentence.
    var explanation: (reason: String, recovery: Recovery) {
        switch self {
        case .issuer(let issuer, let expected):
            (
                "the server calls itself ‘\(String(oneLine: issuer, limit: 256))’ and not ‘\(expected)’",
                "Check the server's address."
            )
        case .deviceOrigin(let origin, let issuer):
            (
                "the server ‘\(issuer)’ names an address at ‘\(origin)’, another origin, for a login on any device",
                Self.otherOrigin(of: issuer)
            )
        case .origin(let origin, let issuer):
            (
                "the server ‘\(issuer)’ names an endpoint at ‘\(origin)’, another origin, and does not announce that its "
                    + "authorization responses name their issuer (RFC 9207)",
                Self.otherOrigin(of: issuer)
            )
        }
    }

    private static func otherOrigin(of issuer: String) -> Recovery {
        Recovery(
            "Ask the operator of ‘\(String(oneLine: issuer, limit: 256))’ whether that origin is the server's own. "
                + "Only then add it to the trusted origins in the settings: otherwise the server gets another server's "
                + "login codes.")
    }
}
