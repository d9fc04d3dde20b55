internal import CLibP11
internal import FoundationEssentials
internal import Latchkey

/// Lends OpenSSL's view of a key on a token: an `EVP_PKEY` whose private half stays on the token.
///
/// libp11 opens sessions of its own. They see the private key because they belong to the same PKCS#11 application as
/// the token's kept session, which is logged in; only a module that runs in a process of its own is another application,
/// and there libp11 logs in itself.
struct EVPKeyLoan: Sendable {
    let token: Token
    let id: Data
    let publicKey: PublicKey
    /// What was shown to the token at login.
    let login: LoginProof?
    /// For one signature of a key that asks for the PIN at each use.
    let proof: LoginProof?
    /// How long `body` may take in all.
    let limit: Duration

    /// Lends the key to `body` on a thread of its own, while the token's thread, on which this is called, waits.
    ///
    /// - Returns: What `body` returns or throws.
    /// - Throws: What goes wrong before `body` is called, so that it may be called again; `timedOut`.
    func lend<R: Sendable>(
        _ body: @escaping @Sendable (OpaquePointer) throws -> R
    ) throws(CryptokiError) -> Result<R, any Error> {
        try LibP11Thread.run("libp11", in: token.module.path, within: limit) { [self] in
            Result { () throws(CryptokiError) in try lendHere(body) }
        }
    }

    private func lendHere<R: Sendable>(
        _ body: @Sendable (OpaquePointer) throws -> R
    ) throws(CryptokiError) -> Result<R, any Error> {
        let (view, key) = try borrow()
        let proof = ContextProof(self.proof)
        proof.offer(to: view.context.pointer)
        defer {
            ContextProof.withdraw(from: view.context.pointer)
            EVP_PKEY_free(key)
        }
        LibP11Error.clear()
        let outcome = Result { try body(key) }
        if case .failure = outcome, LibP11Error.take("EVP_PKEY").returnValue != nil {
            // Whatever the module said: its sessions may be dead, and libp11 0.4.12 would keep them.
            LibP11Contexts.shared.abandon(token)
        }
        return outcome
    }

    private func borrow() throws(CryptokiError) -> (LibP11Token, OpaquePointer) {
        do throws(CryptokiError) {
            let view = try LibP11Contexts.shared.token(token)
            if token.module.isIsolated, let login { try view.login(.user, with: login) }
            return (view, try view.privateKey(id: id, publicKey: publicKey))
        } catch {
            LibP11Contexts.shared.abandon(token)
            throw error
        }
    }
}
