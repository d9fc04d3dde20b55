internal import FoundationEssentials
internal import Latchkey

/// The state of a token when an operation began.
struct TokenSnapshot: Sendable {
    var token: Token
    let information: TokenInformation
    let profile: TokenProfile
    /// The public half of the key that was looked for, if the token has it.
    let publicKey: PublicKey?
    /// Whether the policy's reuse time applies here.
    var keepsLogin = true

    var module: ModuleProfile { token.module.profile }

    /// Whether an occupied slot can be detected. YubiKeys report it from firmware 5.3 on, which
    /// ykcs11 writes as 5.30; before, a key without a certificate is invisible.
    var showsOccupiedSlots: Bool {
        module.family != .ykcs11 || information.firmwareVersion >= .init(major: 5, minor: 30)
    }
}

extension PKCS11Keystore {
    /// Reads the token's state and the public half of a key. Needs no login.
    ///
    /// If the token, the key or its public half is not the expected one, the module is restarted
    /// and the token is read again: a module that caches the token's objects may have read them
    /// while the card was removed, or before another program changed them.
    ///
    /// - Parameters:
    ///   - name: The expected token, if any. A different token is refused before it is used.
    ///   - publicKeyHash: The hash of the expected public half. The caller checks it.
    func takeSnapshot(
        for id: Data? = nil, on name: TokenName? = nil, withHash publicKeyHash: Data? = nil
    ) async throws(KeystoreError) -> TokenSnapshot {
        let token = try await locator.token().token
        do throws(KeystoreError) {
            let snapshot = try await readSnapshot(for: id, on: name)
            let isExpected =
                switch snapshot.publicKey?.fingerprint {
                case nil: id == nil
                case let found?: publicKeyHash == nil || found == publicKeyHash
                }
            guard snapshot.module.cachesStaleState, !isExpected else { return snapshot }
        } catch {
            guard token.module.profile.cachesStaleState, error.code == .wrongDevice else {
                throw error
            }
        }
        try await token.readAgain(afterSettling: true)
        locator.forget()
        return try await readSnapshot(for: id, on: name)
    }

    private func readSnapshot(for id: Data?, on name: TokenName?) async throws(KeystoreError)
        -> TokenSnapshot
    {
        let (token, wasKnown) = try await locator.token()
        let failure: KeystoreError
        do throws(CryptokiError) {
            if let name, !name.fits(token) {
                try token.information.checkWasRead(by: token.module.profile)
                failure = .otherToken(wanted: name, found: token.information, through: token.module)
            } else {
                let (information, publicKey) = try await token.withSession {
                    (session) throws(CryptokiError) in
                    let information = try session.tokenInformation()
                    try information.checkWasRead(by: session.profile)
                    return (
                        information,
                        try id.flatMap { (id) throws(CryptokiError) in try session.publicKey(id: id)
                        }
                    )
                }
                return TokenSnapshot(
                    token: token, information: information,
                    profile: TokenProfile(
                        token.module.profile, information: information, options: options),
                    publicKey: publicKey)
            }
        } catch {
            failure = KeystoreError(error, profile: token.module.profile)
            // A token that was found while the card was removed has no serial number, and the
            // module keeps it.
            let wasRead = (try? token.information.checkWasRead(by: token.module.profile)) != nil
            guard error.kind == .tokenAbsent || !wasRead else { throw failure }
            locator.forget()
            if !wasRead { try await token.readAgain() }
        }
        // The known token was removed; the same URI may match another one now, or once the right
        // one is plugged in.
        locator.forget()
        guard wasKnown else { throw failure }
        return try await readSnapshot(for: id, on: name)
    }

    /// Finds the token and the key of a stored record, and checks that both are the stored ones.
    func checkedSnapshot(of name: TokenName, withHash publicKeyHash: Data)
        async throws(KeystoreError) -> TokenSnapshot
    {
        let snapshot = try await takeSnapshot(for: name.id, on: name, withHash: publicKeyHash)
        try name.check(publicKeyHash, found: snapshot.publicKey?.fingerprint)
        return snapshot
    }
}

extension TokenInformation {
    /// ykcs11 reports firmware 0.0 if it could not read the card, for example after its removal or
    /// during another program's reset.
    func checkWasRead(by profile: ModuleProfile) throws(CryptokiError) {
        guard profile.family != .ykcs11 || firmwareVersion.major > 0 else {
            throw CryptokiError(.deviceError, from: "C_GetTokenInfo")
        }
    }
}

extension TokenName {
    /// Checks the hash of a key's public half on the token; nil if the token has no key with this
    /// ID.
    ///
    /// - Throws: ``KeystoreError`` with code `notFound`, `invalidated` or `wrongDevice`.
    func check(_ publicKeyHash: Data, found: Data?) throws(KeystoreError) {
        guard let found else { throw .keyGone(self) }
        guard found == publicKeyHash else { throw .keyReplaced(self) }
    }
}
