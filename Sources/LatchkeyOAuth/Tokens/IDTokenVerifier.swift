internal import Crypto
package import FoundationEssentials
package import Latchkey

/// Decides whether an ID token is the server's, for this program, for this login, and in time (OpenID Connect Core
/// section 3.1.3.7). RS256 and ES256; nothing else, whatever the token says.
package struct IDTokenVerifier: Sendable {
    /// How many seconds the clocks of server and device may differ.
    package static let leeway: Double = 60

    package let issuer: String
    package let clientID: String

    package init(issuer: String, clientID: String) {
        self.issuer = issuer
        self.clientID = clientID
    }

    /// Checks signature and claims of the token that came with `accessToken`.
    ///
    /// - Parameters:
    ///   - nonce: What the authorization request had.
    ///   - serverDate: The server's clock, which tells a wrong clock from a wrong token.
    package func verify(
        _ compact: String, keys: JWKSet, nonce: String, accessToken: String, now: Date, serverDate: Date?
    ) throws(IDTokenFlaw) -> IDToken {
        try checkSignature(compact, keys)
        let token = try checkClaims(compact, now: now, serverDate: serverDate)
        guard let returned = token.nonce, constantTimeEqual(Array(returned.utf8), Array(nonce.utf8)) else {
            throw .nonce
        }
        if let hash = token.atHash {
            let expected = Base64URL.encode(Data(SHA256.hash(data: Data(accessToken.utf8)).prefix(16)))
            guard constantTimeEqual(Array(hash.utf8), Array(expected.utf8)) else {
                throw .accessToken
            }
        }
        return token
    }

    /// Checks the claims alone: for a token that came straight from the token endpoint over a connection that
    /// vouches for the server (OpenID Connect Core section 3.1.3.7 item 6).
    package func checkClaims(_ compact: String, now: Date, serverDate: Date?) throws(IDTokenFlaw) -> IDToken {
        guard let token = IDToken(compact: compact) else { throw .unreadable }
        guard token.iss == issuer else { throw .issuer(token.iss) }
        guard IDTokenAudience(token.aud, authorizedParty: token.azp).isOnly(clientID, of: issuer) else {
            throw .audience
        }
        let now = now.timeIntervalSince1970
        guard token.exp > now - Self.leeway, token.iat < now + Self.leeway else {
            if let ahead = serverDate.map({ now - $0.timeIntervalSince1970 }), abs(ahead) > Self.leeway {
                throw .clock(secondsAhead: ahead)
            }
            throw .time
        }
        return token
    }

    /// Checks that the user logged in for this token: after that was asked for, and not in some session of the browser's
    /// from before (`auth_time`). Both times that are compared are the server's, so this machine's clock may be wrong.
    ///
    /// - Parameter begun: When it was asked for.
    /// - Returns: When the user logged in, by this machine's clock.
    package func checkLogin(_ token: IDToken, since begun: Date, now: Date) throws(IDTokenFlaw) -> Date {
        guard let authTime = token.authTime else { throw .login }
        let age = max(0, token.iat - authTime)
        guard age <= max(0, now.timeIntervalSince(begun)) + Self.leeway else { throw .login }
        return now.addingTimeInterval(-age)
    }

    private func checkSignature(_ compact: String, _ keys: JWKSet) throws(IDTokenFlaw) {
        guard let parts = JWS.parse(compact) else { throw .unreadable }
        do throws(SignatureFlaw) {
            try parts.verify(with: keys)
        } catch {
            switch error {
            case .unreadable: throw .unreadable
            case .criticalExtension: throw .criticalExtension
            case .algorithm, .signature: throw .signature
            }
        }
    }
}
