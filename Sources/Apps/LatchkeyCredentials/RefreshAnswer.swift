internal import FoundationEssentials
internal import Latchkey
internal import Synchronization

/// A server's response to a refresh, before it is validated.
///
/// Most servers accept a refresh token once. The response is therefore stored, sealed, as soon as
/// it arrives, even if it is invalid: the server accepts only its refresh token.
struct RefreshAnswer: Codable, Sendable {
    /// The refreshed token; with ``flaw``, the old token with the new refresh token.
    let token: Token
    /// The time of receipt, by the server's clock if known. The ID token must be valid at this
    /// time.
    let receivedAt: Date
    /// Why the response can't be used. Only its refresh token is valid. Not stored.
    var flaw: CredentialError?

    private enum CodingKeys: CodingKey {
        case token, receivedAt
    }

    /// The response without a secret that was revoked.
    func without(_ kind: Token.Kind) -> RefreshAnswer {
        RefreshAnswer(token: token.without(kind), receivedAt: receivedAt)
    }
}

extension RefreshAnswer {
    /// - Throws: `KeystoreError` with code `unsupported`: the bytes were authenticated.
    init(_ bytes: SecretBytes, id: String) throws(KeystoreError) {
        guard
            let answer = bytes.withUnsafeBytes({
                try? JSONDecoder().decode(Self.self, from: Data($0))
            }),
            answer.token.id == id
        else { throw .otherFormat("the server's latest response") }
        self = answer
    }

    var bytes: SecretBytes {
        get throws { SecretBytes(try JSONEncoder().encode(self)) }
    }
}

/// A sealed response that could not be stored. A lock closes it like the stored ones.
struct UnsavedAnswer: Sendable {
    /// A ``RefreshAnswer``, sealed with the credential's key.
    let sealed: SecretBytes
    /// The generation of the token that was refreshed. The response is valid for this generation
    /// only.
    let tokenGeneration: Int
}

/// A refresh token that an app has from elsewhere; see ``Token/from(refreshToken:using:boundTo:)``.
struct GivenRefreshToken: Hashable, Sendable {
    let context: Token.Context
    let refreshToken: Redacted<String>
}

/// The running refreshes, one for each credential. All callers share them.
final class RefreshCoordinator: Sendable {
    private struct State {
        var running: [String: Task<Token, any Error>] = [:]
        var unsaved: [String: UnsavedAnswer] = [:]
        var successors: [GivenRefreshToken: Redacted<String>] = [:]
    }

    private let state = Mutex(State())

    /// Waits for the running refresh of `id`, or starts `refresh`. It cannot be cancelled, so that
    /// the server's response is stored.
    func join(_ id: String, _ refresh: @escaping @Sendable () async throws -> Token) async throws
        -> Token
    {
        let task = state.withLock { state in
            if let running = state.running[id] { return running }
            let task = Task {
                defer { self.state.withLock { $0.running[id] = nil } }
                return try await refresh()
            }
            state.running[id] = task
            return task
        }
        return try await task.value
    }

    func isRunning(_ id: String) -> Bool { state.withLock { $0.running[id] != nil } }

    /// A response that could not be stored. Without it, the credential is lost.
    func unsaved(_ id: String) -> UnsavedAnswer? {
        state.withLock { $0.unsaved[id] }
    }

    func setUnsaved(_ answer: UnsavedAnswer?, _ id: String) {
        state.withLock { $0.unsaved[id] = answer }
    }

    /// The refresh token that replaced an app's own in a response that could not be used. The
    /// server accepts only this one.
    func successor(of given: GivenRefreshToken) -> String? {
        state.withLock { $0.successors[given]?.value }
    }

    func setSuccessor(_ refreshToken: String?, of given: GivenRefreshToken) {
        state.withLock { $0.successors[given] = refreshToken.map { Redacted(value: $0) } }
    }
}
