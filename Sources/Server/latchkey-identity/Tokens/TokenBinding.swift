import FoundationEssentials
import HTTPTypes
import Hummingbird
import Latchkey
import LatchkeyRelyingParty

/// Whether and how a client's tokens are bound to a key of the client (RFC 9449). A proof in a
/// request for tokens always binds the new refresh token.
enum TokenBinding: String, Sendable, Codable, CaseIterable {
    /// Requests for tokens need no proof.
    case optional
    /// Each request for tokens needs a proof. Access tokens are short-lived bearer tokens: a client
    /// signs once for each of them.
    case refreshTokens = "refresh_tokens"
    /// Access tokens are bound too: a client signs for each request.
    case accessTokens = "access_tokens"

    var isRequired: Bool { self != .optional }

    /// The thumbprint of the key to which new access tokens are bound; nil for bearer tokens.
    func accessTokenKey(_ grantKey: String?) -> String? {
        self == .accessTokens ? grantKey : nil
    }
}

/// What a request proves about the key to which a grant is bound.
enum Possession: Sendable {
    /// The request uses a token or a code of the grant: if the grant is bound, it must have a proof
    /// of the grant's key.
    case key(DPoPProof?)
    /// The request needs no proof: a bearer token at a resource, or a browser with its own secret.
    case notRequired

    /// Checks the proof, and records its use. A grant that began without a key stays unbound,
    /// whatever the request proves.
    ///
    /// - Throws: ``DPoPError``. Let the transaction fail.
    func check(_ grant: LoginGrant, in database: any SQLConnection) throws {
        guard case .key(let proof) = self, let key = grant.keyThumbprint else { return }
        guard let proof else { throw DPoPError(.missing, "the session is bound to a key") }
        guard proof.thumbprint == key else {
            throw DPoPError(.otherKey, "the session is bound to another key")
        }
        try proof.recordUse(in: database)
    }
}

extension DPoPProof {
    fileprivate func recordUse(in database: any SQLConnection) throws {
        let inserted = try database.execute(
            """
            INSERT INTO dpop_proof (digest, expires_at)
            VALUES (\(digest), \(expiresAt)) ON CONFLICT (digest) DO NOTHING
            """)
        guard inserted == 1 else { throw DPoPError(.replayed, "the proof was used before") }
        // The row is deleted by the database's clock, which may be ahead of this server's.
        guard database.now.map({ $0 < expiresAt }) ?? true else {
            throw DPoPError(.time, "the proof is too old for the database's clock")
        }
    }
}

extension IdentityServices {
    /// The verified proof of a request, not used yet; nil if the request has none.
    ///
    /// With a bound access token, the proof must be for this token.
    func proof(of request: Request) throws -> DPoPProof? {
        let token = request.accessToken.flatMap { $0.isBound ? $0.text : nil }
        let fields = request.proofs
        guard token != nil || !fields.isEmpty else { return nil }
        return try dpop.verify(
            fields, method: request.method.rawValue, url: issuer + request.uri.path,
            accessToken: token)
    }

    /// The session of the request's access token; nil if there is none or it is invalid.
    ///
    /// - Parameter acceptsBearer: Whether the request only reads claims, so that an app's server can
    ///   check a bearer token of a bound session.
    /// - Throws: The reason why the session's key may not be used now (``GrantPolicy``).
    func session(of request: Request, acceptsBearer: Bool = false) async throws -> Session? {
        guard let token = request.accessToken else { return nil }
        return try await grants.session(
            accessToken: token.text, isBound: token.isBound,
            provenBy: acceptsBearer && !token.isBound
                ? .notRequired : .key(try proof(of: request)))
    }
}

extension Request {
    /// The access token of the field `Authorization`, and whether it is of the scheme `DPoP` (RFC
    /// 6750 section 2.1, RFC 9449 section 7.1).
    var accessToken: (text: String, isBound: Bool)? {
        guard let header = headers[.authorization] else { return nil }
        let scheme = header.prefix { $0 != " " }.lowercased()
        let token = header.dropFirst(scheme.count).drop { $0 == " " }
        guard ["bearer", "dpop"].contains(scheme), !token.isEmpty else { return nil }
        return (String(token), scheme == "dpop")
    }

    /// The values of all fields `DPoP`.
    var proofs: [String] { HTTPField.Name("DPoP").map { headers[values: $0] } ?? [] }
}

/// Sends this server's nonce with the response to each request that has a proof (RFC 9449 section
/// 8.2).
struct NonceMiddleware: RouterMiddleware {
    let nonces: DPoPNonces

    @concurrent
    func handle(_ request: Request, context: IdentityContext, next: Next) async throws -> Response {
        var response = try await next(request, context)
        if !request.proofs.isEmpty { response.headers[named: "DPoP-Nonce"] = nonces.current }
        return response
    }
}
