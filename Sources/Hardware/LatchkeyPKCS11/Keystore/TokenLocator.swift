internal import Latchkey
internal import Synchronization

/// Finds the token of a URI when it is first used, and again after it was lost.
final class TokenLocator: Sendable {
    private let uri: TokenURI
    private let options: TokenOptions
    private let found = Mutex<Token?>(nil)

    init(uri: TokenURI, options: TokenOptions) {
        self.uri = uri
        self.options = options
    }

    /// The token, and whether it was known before this call.
    func token() async throws(KeystoreError) -> (token: Token, wasKnown: Bool) {
        if let token = known { return (token, true) }
        do {
            let token = try await Token.find(uri, options: options)
            found.withLock { $0 = token }
            return (token, false)
        } catch {
            throw KeystoreError(error)
        }
    }

    /// The token, if it was found already.
    var known: Token? { found.withLock { $0 } }

    /// Makes the next call look for the token again.
    func forget() { found.withLock { $0 = nil } }
}
