package import FoundationEssentials
package import HTTPTypes
package import Latchkey
package import LatchkeyJOSE

/// The OAuth 2.0 and OpenID Connect endpoints of one server as calls, for one client.
package struct OAuthClient<Code: OAuthErrorCode>: Sendable {
    package typealias Form = [(name: String, value: String)]

    package let metadata: ProviderMetadata
    package let clientID: String
    private let clientSecret: String?
    let additionalOrigins: Set<String>
    private let fields: HTTPFields
    package let connection: ServerConnection<Code>

    /// - Parameters:
    ///   - additionalOrigins: Origins other than the issuer's that may get secrets.
    ///   - fields: The header fields of each request that posts a form.
    package init(
        _ metadata: ProviderMetadata, clientID: String, clientSecret: String? = nil,
        additionalOrigins: Set<String> = [], fields: HTTPFields = [:],
        over connection: ServerConnection<Code>
    ) {
        self.metadata = metadata
        self.clientID = clientID
        self.clientSecret = clientSecret
        self.additionalOrigins = additionalOrigins
        self.fields = fields
        self.connection = connection
    }

    /// The client with the key to which the server binds tokens; nil for none.
    package func proving(with prover: DPoPProver?) -> Self {
        OAuthClient(
            metadata, clientID: clientID, clientSecret: clientSecret,
            additionalOrigins: additionalOrigins, fields: fields,
            over: ServerConnection(transport: connection.transport, prover: prover))
    }

    // MARK: Tokens

    /// Checks that the code of a response that another program received may go to this server: a
    /// malicious server can name an honest server's page and its own token endpoint
    /// (``ProviderMetadata/check(secretsGoTo:additionalOrigins:)``).
    ///
    /// - Parameter issuer: The issuer that the response names; nil for none.
    package func checkResponse(issuer: String?) throws(LatchkeyError<Code>) {
        _ = try endpoint(.authorization)
        if let failure = AuthorizationFailure(
            issuer: issuer, expected: metadata.issuer, isRequired: metadata.sendsIssuer)
        {
            throw LatchkeyError(.authorization(failure))
        }
    }

    /// Redeems an authorization code (RFC 6749 section 4.1.3, RFC 7636 section 4.5).
    package func redeem(
        _ code: String, verifier: String, redirectURI: String, _ more: Form = []
    ) async throws(LatchkeyError<Code>) -> ServerResponse<Code> {
        let form = [("code", code), ("redirect_uri", redirectURI), ("code_verifier", verifier)]
        return try await requestToken("authorization_code", form + more)
    }

    /// Uses a refresh token (RFC 6749 section 6).
    ///
    /// - Returns: The response. It may have an error beside a new refresh token, which must be
    ///   stored; ``TokenResponse/checked(requiresKnownType:)`` then throws.
    /// - Throws: As ``requestToken(_:_:authorization:)``, unless the response has a refresh token.
    package func refresh(
        _ token: String, _ more: Form = []
    ) async throws(LatchkeyError<Code>) -> ServerResponse<Code> {
        let form: Form = [("grant_type", "refresh_token"), ("refresh_token", token)]
        let response = try await post(form + more, to: .token).successful()
        let tokens = TokenResponse(response.body)
        guard !tokens.hasError || tokens.refreshToken != nil else {
            throw LatchkeyError(.refused(response.refusal))
        }
        return response
    }

    /// Requests a token with any grant (RFC 6749 section 4.5).
    ///
    /// - Throws: For a status outside 200...299, and for an error with another status, also if the
    ///   response has an access token.
    package func requestToken(
        _ grantType: String, _ form: Form, authorization: String? = nil
    ) async throws(LatchkeyError<Code>) -> ServerResponse<Code> {
        let response = try await post(
            [("grant_type", grantType)] + form, to: .token, authorization: authorization
        ).successful()
        // Some servers send errors with status 200.
        guard !TokenResponse(response.body).hasError else {
            throw LatchkeyError(.refused(response.refusal))
        }
        return response
    }

    /// Revokes a token (RFC 7009 section 2.1).
    ///
    /// - Parameters:
    ///   - hint: `token_type_hint`; nil for none.
    ///   - identifiesClient: Whether the form names the client.
    package func revoke(
        _ token: String, hint: String? = nil, identifiesClient: Bool = true
    ) async throws(LatchkeyError<Code>) {
        _ = try await post(
            Self.tokenForm(token, hint), to: .revocation, identifiesClient: identifiesClient
        )
        .successful()
    }

    /// Asks the server for the state of a token (RFC 7662 section 2.1).
    package func introspect<T: Decodable>(_ type: T.Type, _ token: String, hint: String)
        async throws(LatchkeyError<Code>) -> T
    {
        try await post(Self.tokenForm(token, hint), to: .introspection).successful().json(type)
    }

    private static func tokenForm(_ token: String, _ hint: String?) -> Form {
        [("token", token)] + (hint.map { [("token_type_hint", $0)] } ?? [])
    }

    // MARK: The user and the keys

    /// The server's claims about the user (OpenID Connect Core section 5.3). Needs a proof only with
    /// a bound access token, as each resource.
    ///
    /// - Parameter authorization: The value of the field `Authorization`.
    package func userInfo<T: Decodable>(_ type: T.Type, authorization: String)
        async throws(LatchkeyError<Code>) -> T
    {
        let request = try endpoint(.userInfo).request(.get, [.authorization: authorization])
        return try await connection.send(request, needsProof: false).successful().json(type)
    }

    /// The server's keys, which sign its ID tokens.
    package func keys() async throws(LatchkeyError<Code>) -> JWKS {
        guard let endpoint = metadata[.keys] else { throw LatchkeyError(.missingEndpoint(.keys)) }
        let keys = try await connection.json(JWKS.self, endpoint.request(.get))
        for key in keys.skipped { connection.transport.note("server key set, \(key.text)") }
        return keys
    }

    /// Checks that the server signs ID tokens with a supported algorithm, if its metadata says so.
    package func checkIDTokenAlgorithms() throws(LatchkeyError<Code>) {
        let names = metadata.idTokenAlgorithms
        guard !names.isEmpty,
            !names.contains(where: { SignatureAlgorithm(rawValue: $0) != nil })
        else { return }
        throw LatchkeyError(.idToken(.algorithms(names)))
    }

    /// The validator for ID tokens of this server for this client.
    package var idTokens: IDTokenValidator {
        IDTokenValidator(issuer: metadata.issuer, clientID: clientID)
    }

    /// Verifies the signature of an ID token.
    package func verifySignature(of idToken: String, with keys: JWKS) throws(LatchkeyError<Code>) {
        do { try idTokens.checkSignature(idToken, keys) } catch {
            throw LatchkeyError(.idToken(error))
        }
    }

    /// Verifies the signature of an ID token with the server's cached keys. Unless one of them
    /// made it, they are read again.
    package func verifySignature(
        of idToken: String, with cache: ProviderCache
    ) async throws(LatchkeyError<Code>) {
        let validator = idTokens
        let keys = try await cache.keys(of: self) { keys in
            do throws(IDTokenFlaw) {
                try validator.checkSignature(idToken, keys)
                return true
            } catch {
                return !error.mayNeedOtherKeys
            }
        }
        try verifySignature(of: idToken, with: keys)
    }

    /// Checks and returns the claims of an ID token. Does not verify the signature.
    @discardableResult
    package func claims(
        of idToken: String, _ expected: IDTokenValidator.Expectations = .init(), now: Date,
        serverDate: Date? = nil
    ) throws(LatchkeyError<Code>) -> IDToken {
        do {
            return try idTokens.checkClaims(idToken, expected, now: now, serverDate: serverDate)
        } catch {
            throw LatchkeyError(.idToken(error))
        }
    }

    // MARK: Requests

    /// An endpoint that may get secrets.
    package func endpoint(_ name: ProviderMetadata.EndpointName) throws(LatchkeyError<Code>)
        -> Endpoint
    {
        guard let endpoint = metadata[name] else { throw LatchkeyError(.missingEndpoint(name)) }
        do throws(MetadataFlaw) {
            try metadata.check(secretsGoTo: [endpoint], additionalOrigins: additionalOrigins)
        } catch {
            throw LatchkeyError(.metadata(error))
        }
        return endpoint
    }

    /// Posts a form as this client (RFC 6749 section 2.3.1).
    ///
    /// - Parameter authorization: The value of the field `Authorization`; nil for none.
    /// - Returns: The response, with any status.
    package func post(
        _ form: Form, to name: ProviderMetadata.EndpointName, authorization: String? = nil,
        identifiesClient: Bool = true
    ) async throws(LatchkeyError<Code>) -> ServerResponse<Code> {
        var request = try endpoint(name).request(.post, fields)
        request.headerFields[.authorization] = authorization
        request.headerFields[.contentType] = "application/x-www-form-urlencoded"
        // GitHub answers with a form to a client that does not ask for JSON.
        request.headerFields[.accept] = "application/json"
        var form = form
        if let clientSecret, !metadata.takesSecretInForm {
            let pair = FormEncoding.encode([(clientID, clientSecret)]).replacing("=", with: ":")
            request.headerFields[.authorization] = "Basic \(Data(pair.utf8).base64EncodedString())"
        } else if identifiesClient {
            let secret = clientSecret.map { [(name: "client_secret", value: $0)] } ?? []
            form = [("client_id", clientID)] + secret + form
        }
        return try await connection.send(
            request, Array(FormEncoding.encode(form).utf8), needsProof: name == .token)
    }
}
