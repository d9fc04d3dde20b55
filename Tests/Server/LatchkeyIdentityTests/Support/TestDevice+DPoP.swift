import Crypto
import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import Testing

@testable import latchkey_identity

extension TestDevice {
    /// A proof of the device's key (RFC 9449). `header` and `claims` replace members; null removes
    /// one.
    func proof(
        _ url: String, method: String = "POST", now: Int, token: String? = nil,
        nonce: String? = nil, header: [String: JSONValue] = [:], claims: [String: JSONValue] = [:]
    ) throws -> String {
        let standardHeader: [String: JSONValue] = [
            "typ": "dpop+jwt", "alg": .string(algorithm), "jwk": .object(try jwk),
        ]
        var standard: [String: JSONValue] = [
            "jti": .string(UUID().uuidString), "htm": .string(method), "htu": .string(url),
            "iat": .number(Double(now)),
        ]
        standard["ath"] = token.map { .string(Self.hash($0)) }
        standard["nonce"] = nonce.map(JSONValue.string)
        let input = try JWS.signingInput(
            header: standardHeader.merging(header) { $1 }.filter { $0.value != .null },
            payload: standard.merging(claims) { $1 }.filter { $0.value != .null })
        return input + "." + Base64URL.encode(try signature(over: input))
    }

    static func hash(_ token: String) -> String {
        Base64URL.encode(MessageDigest(sha256: token.utf8).bytes)
    }

    /// The thumbprint of a P-256 key.
    var thumbprint: String {
        get throws {
            guard case .es256(let key) = key else { return "" }
            return try PublicKey(x963Representation: key.publicKey.x963Representation).thumbprint
        }
    }
}

extension TestServer {
    var tokenURL: String { origin + "/oauth2/token" }

    /// Posts a form with proofs.
    func post(
        _ form: [String: String], proofs: [String], authorization: String? = nil
    ) async throws -> Answer {
        var headers = Self.fields(proofs, authorization: authorization)
        headers[.contentType] = "application/x-www-form-urlencoded"
        return try await send(.post, "/oauth2/token", headers: headers, body: Self.encode(form))
    }

    static func fields(_ proofs: [String], authorization: String?) -> HTTPFields {
        var headers: HTTPFields = [:]
        headers[.authorization] = authorization
        for proof in proofs {
            if let name = HTTPField.Name("DPoP") {
                headers.append(HTTPField(name: name, value: proof))
            }
        }
        return headers
    }

    func refresh(_ token: String, proofs: [String]) async throws -> Answer {
        try await post(
            ["client_id": "app", "grant_type": "refresh_token", "refresh_token": token],
            proofs: proofs)
    }

    func userInfo(_ authorization: String, proofs: [String]) async throws -> Answer {
        try await send(
            .get, "/oauth2/userinfo", headers: Self.fields(proofs, authorization: authorization))
    }

    /// A code of a login in the browser.
    func code(_ request: AuthorizationParameters = AuthorizationParameters()) async throws
        -> String
    {
        let callback = try await TestBrowser(server: self).login(request, username: "alice")
        return try callback.redirectParameter("code") ?? ""
    }

    func redeem(_ code: String, proofs: [String]) async throws -> Answer {
        let request = AuthorizationParameters()
        return try await post(
            [
                "client_id": "app", "grant_type": "authorization_code", "code": code,
                "redirect_uri": request.redirectURI, "code_verifier": request.verifier,
            ], proofs: proofs)
    }

    /// Logs in with a proof of the device's key.
    func login(provenBy device: TestDevice, nonce: String? = nil) async throws -> JSONValue {
        let proof = try device.proof(tokenURL, now: time.seconds, nonce: nonce)
        return try await redeem(code(), proofs: [proof]).success()
    }
}

extension Answer {
    /// Expects an OAuth error.
    func expectError(
        _ expected: Int, _ error: String, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        #expect(status == expected, "\(body)", sourceLocation: sourceLocation)
        #expect(
            try json["error"] == .string(error), "\(body)", sourceLocation: sourceLocation)
    }
}
