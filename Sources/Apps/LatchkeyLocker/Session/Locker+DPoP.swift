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
        do throws(ErsteGroupAuthError) {
            let resource = try ResourceRequest<ErsteGroupAuthErrorCode>(request)
            guard let authorization = authSessionStatus.accessToken?.handle.authorization else {
                throw ErsteGroupAuthError.refusal(.notActive)
            }
            request = try await resource.authorized(
                by: authorization.text, with: dpopProver.withLock { $0 }, nonce: nonce)
        } catch {
            throw error.during("authorize a request")
        }
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
        let row = DPoPKeyRow(
            LockerRows.dpopID, kind: "locker.dpop",
            attributes: ["issuer": issuer, "client": configuration.clientID], label: issuer,
            in: configuration.records)
        if let key = try await row.storedOrNew(
            for: context.prompt, authorizedBy: context.presence)
        {
            use(key)
        }
    }

    private func use(_ key: HardwareKey) {
        let made = DPoPProver(
            DPoPKey(key, in: configuration.records.keystore, now: configuration.now))
        dpopProver.withLock { $0 = made }
    }
}
