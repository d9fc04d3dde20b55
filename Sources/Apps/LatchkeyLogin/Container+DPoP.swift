public import HTTPTypes
internal import Latchkey
internal import LatchkeyOAuth

/// The key to which a server binds the session's tokens (DPoP, RFC 9449), if the server announces it.
///
/// A login creates the key, without user verification and without a prompt, or uses the stored one.
/// It is deleted together with the stored session. The session names its key: a session that began
/// without one stays unbound until the next login, whatever the server announces later.
extension Container {
    /// Authorizes a request of the app to one of its own servers: sets the field `Authorization`,
    /// and the field `DPoP` if the access token is bound to this machine. An access token that is
    /// about to expire is refreshed first.
    ///
    /// A proof is for one request, and needs a signature of the hardware. A server that answers 401
    /// and a `DPoP-Nonce` requires its nonce: call this again with that nonce, and repeat the
    /// request once.
    ///
    /// - Parameter nonce: The latest `DPoP-Nonce` of the server, if it sent one.
    /// - Throws: ``LoginError``: `unauthenticated` without a session or without its key,
    ///   `invalidInput` for a request that goes neither over `https` nor to this machine.
    public func authorizeRequest(_ request: inout HTTPRequest, nonce: String? = nil) async throws {
        do {
            let resource = try ResourceRequest<LoginErrorCode>(request)
            let (session, access) = try await accessibleSession()
            request = try await resource.authorized(
                by: access.authorization,
                with: access.isBound ? boundProver(of: session) : nil, nonce: nonce)
        } catch {
            throw error.during("authorize a request")
        }
    }

    /// The prover of a session's key; nil for a session that is not bound.
    ///
    /// - Throws: ``LoginError`` with code `unauthenticated` if the key is not stored.
    func boundProver(of session: LoginSession?) async throws -> DPoPProver? {
        guard let id = session?.boundKey else { return nil }
        if let lastProver, lastProver.key.id == id { return lastProver }
        guard let key = try await dpopRow.stored(for: sessionPrompt, authorizedBy: presence),
            key.id == id
        else {
            throw LoginError(.proof(.lostKey(nil)))
        }
        return use(key)
    }

    /// The server for a new login, with the key to which it binds the tokens. Without a key if the
    /// server binds no tokens, or if this hardware has no keys without user verification. A server
    /// that requires a proof then refuses the login.
    func proving(_ server: LoginEndpoints, for prompt: PromptContext) async throws
        -> LoginEndpoints
    {
        guard server.metadata.bindsTokens else { return server }
        let key = try await dpopRow.storedOrNew(for: prompt, authorizedBy: presence)
        let prover = key.map { key in
            lastProver.flatMap { $0.key.id == key.id ? $0 : nil } ?? use(key)
        }
        return LoginEndpoints(client: server.client.proving(with: prover), device: server.device)
    }

    /// The change that stores the key of a new session again: a logout of another program can have
    /// deleted its row during the login.
    ///
    /// - Throws: ``LoginError`` with code `unauthenticated` if another program has replaced the key.
    func insertion(of prover: DPoPProver?) async throws -> RecordChange? {
        guard let prover else { return nil }
        do {
            return try await dpopRow.insertion(of: prover.key.key)
        } catch let failure as DPoPFailure {
            throw LoginError(.proof(failure))
        }
    }

    private var dpopRow: DPoPKeyRow {
        DPoPKeyRow(
            LoginRows.dpopID, kind: "login.dpop", attributes: rows.server.attributes,
            label: endpoint.authority, in: records)
    }

    private func use(_ key: HardwareKey) -> DPoPProver {
        let prover = DPoPProver(DPoPKey(key, in: keystore, now: configuration.now))
        lastProver = prover
        return prover
    }

    /// Deletes the key of a login that failed because this hardware cannot use it. The next login
    /// creates another.
    func forgetKey(after error: any Error) async {
        guard (error as? LoginError)?.code == .unauthenticated, let prover = lastProver else {
            return
        }
        lastProver = nil
        await dpopRow.forget(prover.key.key, for: sessionPrompt, authorizedBy: presence)
    }
}
