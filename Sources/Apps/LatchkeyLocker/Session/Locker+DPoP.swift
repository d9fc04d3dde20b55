public import HTTPTypes
public import Latchkey
internal import LatchkeyOAuth
internal import Synchronization

/// The key to which a server binds the session's tokens (DPoP, RFC 9449), if the server announces it.
///
/// The first request for a token creates it, without user verification and without a prompt. It is
/// deleted together with the enrolment. The tokens are in memory only.
extension Locker {
    /// Authorizes a request of the app to one of its own servers: sets the field `Authorization`,
    /// and the field `DPoP` if the session's access token is bound to this machine.
    ///
    /// A proof is for one request, and needs a signature of the hardware. A server that answers 401
    /// and a `DPoP-Nonce` requires its nonce: call this again with that nonce, and repeat the
    /// request once.
    ///
    /// - Parameter nonce: The latest `DPoP-Nonce` of the server, if it sent one.
    /// - Throws: ``ErsteGroupAuthError``: `notActive` without an access token, `invalidInput` for a
    ///   request that goes neither over `https` nor to this machine.
    public func authorizeRequest(
        _ request: inout HTTPRequest, nonce: String? = nil
    ) async throws(ErsteGroupAuthError) {
        let operation = "authorize a request"
        let url = "\(request.scheme ?? "")://\(request.authority ?? "")\(request.path ?? "")"
        guard Endpoint(url) != nil else {
            throw ErsteGroupAuthError(
                operation: operation, code: .invalidInput,
                reason: "the request's URL is neither https nor on this machine",
                recovery: "Use an https address.")
        }
        guard let token = authSessionStatus.accessToken,
            let authorization = token.handle.authorization
        else { throw ErsteGroupAuthError.refusal(.notActive).during(operation) }
        var authorized = request
        authorized.headerFields[.authorization] = authorization.text
        if token.handle.isBound {
            guard let prover = dpopProver.withLock({ $0 }) else {
                throw ErsteGroupAuthError(.proof(.lostKey(nil))).during(operation)
            }
            do throws(KeystoreError) {
                try await prover.addProof(to: &authorized, nonce: nonce)
            } catch {
                throw ErsteGroupAuthError(.proof(DPoPFailure(error))).during(operation)
            }
        }
        request = authorized
    }

    /// The server for a request for tokens, with the key to which it binds them.
    func serverForTokens(_ context: FlowContext) async throws -> LockerServer {
        let metadata = try await server().discovery
        if metadata.bindsTokens, dpopProver.withLock({ $0 }) == nil {
            try await useKey(of: metadata.issuer, context)
        }
        return try await server()
    }

    /// Reads or creates the key. Hardware without keys that sign without user verification has
    /// none: a server that requires a proof then refuses the request.
    private func useKey(of issuer: String, _ context: FlowContext) async throws {
        let records = configuration.records
        let server = ["issuer": issuer, "client": configuration.clientID]
        let stored = try await records.read(
            LockerRows.dpopID, for: context.prompt, authorizedBy: NobodyPresent())?.record
        if let stored, let key = stored.key, stored.attributes == server { return use(key) }
        let made: HardwareKey
        do throws(KeystoreError) {
            made = try await records.createKey(
                KeyRequest(policy: .none, label: issuer, prompt: context.prompt),
                revocably: .never, authorizedBy: context.presence
            ).key
        } catch {
            guard error.code == .unsupported else { throw error }
            return
        }
        let record = Record(
            id: LockerRows.dpopID, kind: "locker.dpop", attributes: server, key: made)
        do throws(KeystoreError) {
            _ = try await store(
                [.put(record, payload: nil, ifGeneration: stored?.generation ?? 0)], context)
        } catch {
            try? await records.discard(made)
            guard error.code == .conflict else { throw error }
            // Another program stored its key first.
            return try await useKey(of: issuer, context)
        }
        use(made)
    }

    private func use(_ key: HardwareKey) {
        let made = DPoPProver(
            DPoPKey(key, in: configuration.records.keystore, now: configuration.now))
        dpopProver.withLock { $0 = made }
    }
}
