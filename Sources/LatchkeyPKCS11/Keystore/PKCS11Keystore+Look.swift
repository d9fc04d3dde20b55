internal import FoundationEssentials
internal import Latchkey

extension PKCS11Keystore {
    /// Looks at the token, and for the public half of a key; nobody needs to be logged in for that.
    ///
    /// - Parameter accepts: Refuses a token that is another one than expected, before anything is done with it.
    func look(
        _ operation: String, for id: Data? = nil,
        accepts: (TokenInformation) throws(KeystoreError) -> Void = { (_) throws(KeystoreError) in }
    ) async throws(KeystoreError) -> TokenSight {
        let (token, wasKnown) = try await desk.token(operation)
        do throws(KeystoreError) {
            try accepts(token.information)
        } catch {
            // It is not kept, so that the right one is found when it is back in its place.
            desk.forget()
            guard wasKnown else { throw error }
            return try await look(operation, for: id, accepts: accepts)
        }
        do {
            let family = token.profile.family
            let (information, publicKey) = try await token.perform { (session) throws(CryptokiError) in
                let information = try session.tokenInformation()
                // ykcs11 reports firmware 0.0 if it could not read the card, for example during another program's reset.
                guard family != .ykcs11 || information.firmwareVersion.major > 0 else {
                    throw CryptokiError(.deviceError, from: "C_GetTokenInfo")
                }
                return (information, try id.flatMap { (id) throws(CryptokiError) in try session.publicKey(id: id) })
            }
            return TokenSight(
                token: token, information: information,
                nature: TokenNature(token.profile, information: information, options: options), publicKey: publicKey,
                login: token.login)
        } catch {
            guard error.kind == .tokenAbsent else { throw failure(error, operation, token) }
            desk.forget()
            // The token that was known is gone; the same URI may fit another one by now.
            guard wasKnown else { throw failure(error, operation, token) }
            return try await look(operation, for: id, accepts: accepts)
        }
    }

    /// Looks for what is stored: the right token, the key on it, and the right key.
    func look(
        _ operation: String, for name: TokenName, withHash publicKeyHash: Data
    ) async throws(KeystoreError) -> TokenSight {
        let sight = try await look(operation, for: name.id) { (information) throws(KeystoreError) in
            guard name.fits(information) else { throw .otherToken(operation, wanted: name, found: information) }
        }
        guard let publicKey = sight.publicKey else { throw .keyGone(operation, name) }
        guard publicKey.fingerprint == publicKeyHash else { throw .keyReplaced(operation, name) }
        return sight
    }

    /// What is known of the right token without asking it, for a use that asks nobody; looks where nothing is known yet.
    func glance(_ operation: String, for name: TokenName) async throws(KeystoreError) -> TokenSight {
        let (token, _) = try await desk.token(operation)
        guard name.fits(token.information) else {
            desk.forget()
            throw .otherToken(operation, wanted: name, found: token.information)
        }
        return TokenSight(
            token: token, information: token.information,
            nature: TokenNature(token.profile, information: token.information, options: options), publicKey: nil,
            login: token.login)
    }

    /// An error of the layer below, and what it means for what is known of the token.
    func failure(_ error: CryptokiError, _ operation: String, _ token: Token) -> KeystoreError {
        KeystoreError(error, during: operation, profile: token.profile)
    }
}

extension KeystoreError {
    static func otherToken(_ operation: String, wanted: TokenName, found: TokenInformation) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .wrongDevice,
            reason: "the key is on the token ‘\(wanted.label)’ with serial number \(wanted.serial), and this is "
                + "‘\(found.label)’ with serial number \(found.serial)",
            recovery: "Plug in the token on which the key was made, or set up anew with this one.")
    }

    /// A serial number that says nothing leaves open whether the key or the token is another one.
    static func keyGone(_ operation: String, _ name: TokenName) -> KeystoreError {
        guard name.hasSerial else {
            return KeystoreError(
                operation: operation, code: .wrongDevice,
                reason: "the key is not on the token ‘\(name.label)’, which has no serial number to be known by",
                recovery: "Plug in the token on which the key was made; if this is it, set up anew.")
        }
        return .notFound(
            operation, "the key is not on the token ‘\(name.label)’ any more",
            recovery: "It was deleted there, or the token was erased: set up anew.")
    }

    static func keyReplaced(_ operation: String, _ name: TokenName) -> KeystoreError {
        guard name.hasSerial else { return keyGone(operation, name) }
        return KeystoreError(
            operation: operation, code: .invalidated,
            reason: "another key has taken its place on the token ‘\(name.label)’",
            recovery: "What was made with the old key is lost: set up anew.")
    }
}
