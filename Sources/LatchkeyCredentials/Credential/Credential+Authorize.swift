public import HTTPTypes
internal import Latchkey

extension Credential {
    /// Puts the access token into a request, refreshed first if it is about to end.
    ///
    /// Where the refresh fails and the token has not ended yet, it is used as it is.
    ///
    /// - Throws: ``CredentialError``; `refused` for a request that would send the token neither over `https` nor to this
    ///   machine.
    public func authorize(_ request: inout HTTPRequest) async throws {
        let operation = "authorize the request"
        let url = "\(request.scheme ?? "")://\(request.authority ?? "")\(request.path ?? "")"
        guard Endpoint(url) != nil else {
            throw CredentialError(
                operation: operation, code: .refused, reason: "it goes neither over https nor to this machine",
                recovery: "Use an https address.")
        }
        request.headerFields[.authorization] = try await authorization(operation)
    }

    /// The value of the field `Authorization`.
    package func authorization(_ operation: String) async throws -> String {
        try await withUsableToken(operation) { try $0.authorization(operation) }
    }

    /// Lends a token that can be used now, at the price of one proof for everything.
    func withUsableToken<R>(_ operation: String, _ body: (Token) async throws -> R) async throws -> R {
        try await withOpen(operation) {
            do {
                try await refreshIfNeeded()
            } catch {
                let token = try await stored(operation).token
                guard !token.isExpired(at: store.configuration.clock.now) else { throw error }
                return try await body(token)
            }
            return try await body(stored(operation).token)
        }
    }
}
