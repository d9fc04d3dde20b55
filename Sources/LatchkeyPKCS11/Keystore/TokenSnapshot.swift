internal import FoundationEssentials
internal import Latchkey
internal import Synchronization

/// The state of a token when an operation began.
struct TokenSnapshot: Sendable {
    let token: Token
    let information: TokenInformation
    let profile: TokenProfile
    /// The public half of the key that was looked for, if the token has it.
    let publicKey: PublicKey?
    let login: LoginReuse
    /// Whether the policy's reuse time applies here.
    let keepsLogin: Bool

    /// Whether an occupied slot can be detected. YubiKeys report it from firmware 5.3 on, which ykcs11 writes as 5.30; before,
    /// a key without a certificate is invisible.
    var showsOccupiedSlots: Bool {
        token.module.profile.family != .ykcs11
            || information.firmwareVersion >= ModuleInformation.Version(major: 5, minor: 30)
    }
}

extension TokenSnapshot {
    init(
        _ token: Token, _ information: TokenInformation, _ options: PKCS11Options, publicKey: PublicKey? = nil
    ) {
        self.init(
            token: token, information: information,
            profile: TokenProfile(token.module.profile, information: information, options: options),
            publicKey: publicKey, login: token.login, keepsLogin: true)
    }
}

extension PKCS11Keystore {
    /// Reads the token's state and the public half of a key. Needs no login.
    ///
    /// - Parameter accepts: Throws if the token is not the expected one, before anything else is done with it.
    func takeSnapshot(
        _ operation: String, for id: Data? = nil,
        accepts: (TokenInformation) throws(KeystoreError) -> Void = { (_) throws(KeystoreError) in }
    ) async throws(KeystoreError) -> TokenSnapshot {
        let (token, wasKnown) = try await locator.token(operation)
        do throws(KeystoreError) {
            try accepts(token.information)
        } catch {
            // Forget this token so that the right one is found once it is plugged in again.
            locator.forget()
            guard wasKnown else { throw error }
            return try await takeSnapshot(operation, for: id, accepts: accepts)
        }
        do {
            let family = token.module.profile.family
            let (information, publicKey) = try await token.perform { (session) throws(CryptokiError) in
                let information = try session.tokenInformation()
                // ykcs11 reports firmware 0.0 if it could not read the card, for example during another program's reset.
                guard family != .ykcs11 || information.firmwareVersion.major > 0 else {
                    throw CryptokiError(.deviceError, from: "C_GetTokenInfo")
                }
                return (information, try id.flatMap { (id) throws(CryptokiError) in try session.publicKey(id: id) })
            }
            return TokenSnapshot(token, information, options, publicKey: publicKey)
        } catch {
            let failure = KeystoreError(error, during: operation, profile: token.module.profile)
            guard error.kind == .tokenAbsent else { throw failure }
            locator.forget()
            // The known token was removed; the same URI may match another one now.
            guard wasKnown else { throw failure }
            return try await takeSnapshot(operation, for: id, accepts: accepts)
        }
    }

    /// Finds the token and the key of a stored record, and checks that both are the stored ones.
    func takeSnapshot(
        _ operation: String, for name: TokenName, withHash publicKeyHash: Data
    ) async throws(KeystoreError) -> TokenSnapshot {
        let snapshot = try await takeSnapshot(operation, for: name.id) { (information) throws(KeystoreError) in
            try name.check(information, operation)
        }
        guard let publicKey = snapshot.publicKey else { throw .keyGone(operation, name) }
        guard publicKey.fingerprint == publicKeyHash else { throw .keyReplaced(operation, name) }
        return snapshot
    }

    /// The last known state of the token, for a use that does not prompt. Reads the token only if it is not known yet.
    func cachedSnapshot(_ operation: String, for name: TokenName) async throws(KeystoreError) -> TokenSnapshot {
        let (token, _) = try await locator.token(operation)
        do {
            try name.check(token.information, operation)
        } catch {
            locator.forget()
            throw error
        }
        return TokenSnapshot(token, token.information, options)
    }
}

extension TokenName {
    /// - Throws: ``KeystoreError`` with code `wrongDevice` if this is another token.
    func check(_ token: TokenInformation, _ operation: String) throws(KeystoreError) {
        guard fits(token) else { throw .otherToken(operation, wanted: self, found: token) }
    }
}

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
    func token(_ operation: String) async throws(KeystoreError) -> (token: Token, wasKnown: Bool) {
        if let token = known { return (token, true) }
        do {
            let token = try await Token.find(uri, options: options)
            found.withLock { $0 = token }
            return (token, false)
        } catch {
            throw KeystoreError(error, during: operation)
        }
    }

    /// The token, if it was found already.
    var known: Token? { found.withLock { $0 } }

    /// Makes the next call look for the token again.
    func forget() {
        found.withLock { $0 = nil }
    }
}
