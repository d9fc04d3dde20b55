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
            let url = "\(request.scheme ?? "")://\(request.authority ?? "")\(request.path ?? "")"
            guard Endpoint(url) != nil else {
                throw LoginError(.invalidAddress(url))
            }
            let (session, access) = try await accessibleSession()
            var authorized = request
            authorized.headerFields[.authorization] = access.authorization
            if access.isBound {
                try await addProof(to: &authorized, nonce: nonce, of: session)
            }
            request = authorized
        } catch {
            throw error.during("authorize a request")
        }
    }

    private func addProof(to request: inout HTTPRequest, nonce: String?, of session: LoginSession)
        async throws
    {
        guard let prover = try await boundProver(of: session) else {
            throw LoginError(.proof(.lostKey(nil)))
        }
        do throws(KeystoreError) {
            try await prover.addProof(to: &request, nonce: nonce)
        } catch {
            throw LoginError(.proof(DPoPFailure(error)))
        }
    }

    /// The prover of a session's key; nil for a session that is not bound.
    ///
    /// - Throws: ``LoginError`` with code `unauthenticated` if the key is not stored.
    func boundProver(of session: LoginSession?) async throws -> DPoPProver? {
        guard let id = session?.boundKey else { return nil }
        if let lastProver, lastProver.key.id == id { return lastProver }
        guard let key = try await rows.dpopKey(for: sessionPrompt)?.key, key.id == id else {
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
        return LoginEndpoints(
            client: server.client.proving(with: try await loginProver(for: prompt)),
            device: server.device)
    }

    /// Creates and stores the key if there is none. A stored key of another server is replaced.
    private func loginProver(for prompt: PromptContext) async throws -> DPoPProver? {
        let stored = try await rows.dpopKey(for: prompt)
        if let key = stored?.key {
            return lastProver?.key.id == key.id ? lastProver : use(key)
        }
        let made: HardwareKey
        do throws(KeystoreError) {
            made = try await records.createKey(
                KeyRequest(policy: .none, label: endpoint.authority, prompt: prompt),
                revocably: .never, authorizedBy: presence
            ).key
        } catch {
            guard error.code == .unsupported else { throw error }
            return nil
        }
        let change = rows.put(dpop: made, ifGeneration: stored?.generation ?? 0)
        guard try await rows.applyUnlessChanged([change], for: prompt) != nil else {
            // Another program stored its key first.
            try? await records.discard(made)
            return try await loginProver(for: prompt)
        }
        return use(made)
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
        _ = try? await rows.applyUnlessChanged(
            [.delete(LoginRows.dpopID, ifGeneration: nil)], for: sessionPrompt)
        try? await records.discard(prover.key.key)
    }
}
