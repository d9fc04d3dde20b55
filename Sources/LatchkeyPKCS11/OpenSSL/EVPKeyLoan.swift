internal import CLibP11
internal import FoundationEssentials
internal import Latchkey

/// Lends OpenSSL's view of a key on a token: an `EVP_PKEY` whose private half stays on the token.
///
/// libp11 opens sessions of its own. They see the private key because they belong to the same PKCS#11 application as
/// the token's kept session, which is logged in. A module that runs in a process of its own would be another
/// application, and is not lent from.
struct EVPKeyLoan: Sendable {
    let token: Token
    let id: Data
    let publicKey: PublicKey
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
        let proof = ContextProof(self.proof)
        // Whatever is left behind at the limit signs no more.
        defer { proof.revoke() }
        return try LibP11Thread.run("libp11", in: token.module, within: limit) { [self] in
            Result { () throws(CryptokiError) in try lendHere(proof, body) }
        }
    }

    private func lendHere<R: Sendable>(
        _ proof: ContextProof, _ body: @Sendable (OpaquePointer) throws -> R
    ) throws(CryptokiError) -> Result<R, any Error> {
        let (view, key) = try borrow()
        proof.offer(to: view.context.pointer)
        defer {
            ContextProof.withdraw(from: view.context.pointer)
            EVP_PKEY_free(key)
        }
        LibP11Error.clear()
        // libp11 has a bare pointer to the proof.
        let outcome = withExtendedLifetime(proof) { Result { try body(key) } }
        if case .failure = outcome, LibP11Error.take("EVP_PKEY").returnValue != nil {
            // Whatever the module said: its sessions may be dead, and libp11 0.4.12 would keep them.
            LibP11Contexts.shared.abandon(token)
        }
        return outcome
    }

    private func borrow() throws(CryptokiError) -> (LibP11Token, OpaquePointer) {
        do throws(CryptokiError) {
            let view = try LibP11Contexts.shared.token(token)
            return (view, try view.privateKey(id: id, publicKey: publicKey))
        } catch {
            LibP11Contexts.shared.abandon(token)
            throw error
        }
    }
}
