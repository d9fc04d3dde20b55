public import Latchkey

/// Keys on a PKCS#11 token: a YubiKey, a smart card, a TPM behind tpm2-pkcs11, or SoftHSM2 for tests.
///
/// The token is named by a URI (RFC 7512): `pkcs11:token=…;serial=…?module-path=…`. It has one PIN, which is its own: a
/// key with the policy `.pin` is born, used and opened with that. A URI that also has `id=` or `object=` names a key that
/// is on the token already; ``createKey(_:authorizedBy:)`` then **adopts** it, after the same checks, instead of making
/// one.
///
/// A PIN for each use means just that: keys are made with `CKA_ALWAYS_AUTHENTICATE` where the token has it; elsewhere
/// the login lasts for one operation. A PIN is never sent a second time after the token refused it.
///
/// Keystores of one process on one token share its thread, its session and its login.
public struct PKCS11Keystore: Keystore {
    /// The name under which keys of this kind are stored.
    public static let backend = "pkcs11"

    public var backend: String { Self.backend }
    public var mayHaveReader: Bool { true }

    let uri: TokenURI
    let options: PKCS11Options
    let desk: TokenDesk

    /// Uses the token that a URI names. Loads nothing yet.
    public init(uri: TokenURI, options: PKCS11Options = PKCS11Options()) {
        self.uri = uri
        self.options = options
        desk = TokenDesk(uri: uri, options: options.token)
    }

    /// - Throws: `KeystoreError` with code `invalidInput` for text that is no URI of a token.
    public init(uri: String, options: PKCS11Options = PKCS11Options()) throws(KeystoreError) {
        do {
            self.init(uri: try TokenURI(uri), options: options)
        } catch {
            throw .invalidInput("read the token's URI", error.reason)
        }
    }

    public func capabilities() async throws(KeystoreError) -> KeystoreCapabilities {
        let sight = try await look("look at the token")
        let information = sight.information
        let seals = try await keyEstablishment(at: sight, "look at the token") != nil
        return KeystoreCapabilities(
            device: "\(information.manufacturer) \(information.model) ‘\(information.label)’, serial number "
                + "\(information.serial), firmware \(information.firmwareVersion)",
            root: sight.nature.root,
            requirements: sight.token.profile.signsWithoutLogin
                ? sight.nature.requirements : sight.nature.requirements.subtracting([.none]),
            sealing: seals ? sight.nature.requirements : [], readsFingers: sight.nature.asksItself,
            canAttest: sight.token.profile.family == .ykcs11)
    }

    /// Ends the login of the token, for all keystores that share it.
    public func endReuse() {
        if let token = desk.known { token.login.end(on: token) }
    }

    /// Ends the logins of all keystores of this process and locks their cards, for a program that ends without `exit(3)`:
    /// by `_exit(2)`, or because of a signal that it handles. `exit(3)` and the end of `main` do it too.
    ///
    /// Call it last: tokens can't be used afterwards. It blocks for up to 3 seconds while the module is in a call, such as one that
    /// waits for a touch; a card that is still in use then stays unlocked. Do not call it in a signal handler.
    public static func lockTokensAtExit() {
        UnlockedCards.shared.lockAll()
    }

    public func pinStatus() async throws(KeystoreError) -> PINStatus {
        PINStatus(try await look("read the token's PIN flags").information)
    }
}
