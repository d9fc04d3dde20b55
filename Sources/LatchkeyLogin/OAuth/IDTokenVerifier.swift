internal import Crypto
internal import FoundationEssentials
internal import Latchkey

/// Decides whether an ID token is the server's, for this program, for this login, and in time (OpenID Connect Core
/// section 3.1.3.7). RS256 and ES256; nothing else, whatever the token says.
struct IDTokenVerifier: Sendable {
    /// How many seconds the clocks of server and device may differ.
    static let leeway: Double = 60

    let operation: String
    let issuer: String
    let clientID: String

    /// Checks signature and claims of the token that came with `accessToken`.
    ///
    /// - Parameters:
    ///   - nonce: What the authorization request had.
    ///   - serverDate: The server's clock, which tells a wrong clock from a wrong token.
    /// - Throws: ``LoginError`` with code `invalidToken`, or `clockSkew` when this machine's clock is to blame.
    func verify(
        _ compact: String, keys: JWKSet, nonce: String, accessToken: String, now: Date, serverDate: Date?
    ) throws(LoginError) -> IDToken {
        try checkSignature(compact, keys)
        let token = try checkClaims(compact, now: now, serverDate: serverDate)
        guard let returned = token.nonce, constantTimeEqual(Array(returned.utf8), Array(nonce.utf8)) else {
            throw refusal("belongs to another login")
        }
        if let hash = token.atHash {
            let expected = Base64URL.encode(Data(SHA256.hash(data: Data(accessToken.utf8)).prefix(16)))
            guard constantTimeEqual(Array(hash.utf8), Array(expected.utf8)) else {
                throw refusal("belongs to another access token")
            }
        }
        return token
    }

    /// Checks the claims alone: for a token that came straight from the token endpoint over a connection that
    /// vouches for the server (OpenID Connect Core section 3.1.3.7 item 6).
    func checkClaims(_ compact: String, now: Date, serverDate: Date?) throws(LoginError) -> IDToken {
        guard let token = IDToken(compact: compact) else { throw refusal("can't be read") }
        guard token.iss == issuer else { throw refusal("comes from ‘\(token.iss)’") }
        guard token.aud.contains(clientID), token.azp ?? clientID == clientID else {
            throw refusal("is for another program")
        }
        let now = now.timeIntervalSince1970
        guard token.exp > now - Self.leeway, token.iat < now + Self.leeway else {
            if let ahead = serverDate.map({ now - $0.timeIntervalSince1970 }), abs(ahead) > Self.leeway {
                throw .clockSkew(operation, seconds: ahead)
            }
            throw refusal("is not valid now")
        }
        return token
    }

    private func checkSignature(_ compact: String, _ keys: JWKSet) throws(LoginError) {
        guard let parts = JWS.parse(compact) else { throw refusal("can't be read") }
        do throws(SignatureFlaw) {
            try parts.verify(with: keys)
        } catch {
            switch error {
            case .unreadable: throw refusal("can't be read")
            case .criticalExtension: throw refusal("wants an extension that isn't known")
            case .algorithm, .signature: throw refusal("is not signed by the server")
            }
        }
    }

    private func refusal(_ reason: String) -> LoginError {
        .invalidToken(operation, "the server's ID token \(reason)")
    }
}
