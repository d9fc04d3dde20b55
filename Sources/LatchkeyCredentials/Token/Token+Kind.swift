internal import FoundationEssentials
internal import Latchkey

extension Token {
    /// One of the secrets of a token. The raw value is its name in a `token_type_hint` (RFC 7009 section 2.1).
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// The device secret of native single sign-on.
        case deviceSecret = "device_secret"
        /// The refresh token.
        case refreshToken = "refresh_token"
        /// The access token.
        case accessToken = "access_token"

        var words: String { rawValue.replacing("_", with: " ") }
    }

    /// The secret of this kind, if there is one.
    public subscript(kind: Kind) -> String? {
        switch kind {
        case .accessToken: accessToken
        case .refreshToken: refreshToken
        case .deviceSecret: deviceSecret
        }
    }

    /// The token after the server has forgotten one of its secrets: without it, and an access token is past its end.
    func without(_ kind: Kind) -> Token {
        var members = response
        switch kind {
        case .accessToken: members[Member.expiresIn] = .number(0)
        case .refreshToken, .deviceSecret: members[kind.rawValue] = nil
        }
        return Token(id: id, issuedAt: issuedAt, context: context, idToken: idToken, checked: members)
    }

    /// The token after a refresh: what the server's answer leaves out stays, and the id stays.
    ///
    /// - Parameters:
    ///   - now: This machine's clock.
    ///   - serverDate: The server's, where it told.
    /// - Throws: ``CredentialError`` with code `invalidResponse` for an answer of which nothing has to be kept.
    func refreshed(
        by answer: Data, at now: Date, serverDate: Date?, _ operation: String
    ) throws(CredentialError) -> RefreshAnswer {
        guard let members = try? JSONDecoder().decode([String: JSONValue].self, from: answer) else {
            throw .invalidResponse(operation, "the server's answer is not what its protocol says")
        }
        var merged = response
        // An old end says nothing about a new access token.
        for name in [Member.accessToken, Member.expiresIn] { merged[name] = nil }
        merged.merge(members) { $1 == .null ? $0 : $1 }
        let receivedAt = serverDate ?? now
        do {
            let token = try Token(members: merged, context: context, id: id, receivedAt: now)
            return RefreshAnswer(token: token, receivedAt: receivedAt)
        } catch {
            let flaw = CredentialError.invalidResponse(operation, error.reason)
            guard let rotated = members[Member.refreshToken]?.string, !rotated.isEmpty else { throw flaw }
            var same = response
            same[Member.refreshToken] = .string(rotated)
            let token = Token(id: id, issuedAt: issuedAt, context: context, idToken: idToken, checked: same)
            return RefreshAnswer(token: token, receivedAt: receivedAt, flaw: flaw)
        }
    }

    /// What goes into the field `Authorization` (RFC 6750 section 2.1).
    func authorization(_ operation: String) throws(CredentialError) -> String {
        guard tokenType.lowercased() == "bearer" else {
            throw .unsupported(
                operation, "tokens of type ‘\(tokenType)’ need more than a header",
                recovery: "Ask the server for a bearer token.")
        }
        return "Bearer \(accessToken)"
    }
}
