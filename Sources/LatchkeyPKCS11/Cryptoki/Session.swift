internal import FoundationEssentials
internal import Latchkey

/// The session that a token's thread keeps open (`CKF_RW_SESSION | CKF_SERIAL_SESSION`).
///
/// Lent to the closure of ``Token/perform(_:)``, and used on that thread only: not Sendable. Every method is one or a
/// few Cryptoki calls, each with a deadline; each throws ``CryptokiError``.
final class Session {
    let profile: ModuleProfile

    init(profile: ModuleProfile) {
        self.profile = profile
    }

    /// The token's present flags, read anew.
    func tokenInformation() throws(CryptokiError) -> TokenInformation { throw .unwritten }

    /// Whether the token has a mechanism (`C_GetMechanismInfo`).
    func supports(_ mechanism: Mechanism) throws(CryptokiError) -> Bool { throw .unwritten }

    /// Throws `cancelled` when the task that waits for this work was cancelled. Called by what begins something long or
    /// leaves something behind; not by what cleans up.
    func checkCancellation() throws(CryptokiError) { throw .unwritten }
}

extension Session {
    /// Who is logged in, as the token says.
    func loginState() throws(CryptokiError) -> LoginState { throw .unwritten }

    /// Logs in. Nothing is sent when that role is logged in already; somebody else is logged out first.
    ///
    /// - Throws: `returned(.pinIncorrect)`, `.pinLocked` …; never repeated by the ladder.
    func login(_ role: LoginRole, with proof: LoginProof) throws(CryptokiError) { throw .unwritten }

    /// Logs out. Handles of private objects are forgotten. It is no error when nobody is logged in.
    func logout() throws(CryptokiError) { throw .unwritten }

    /// Changes the PIN of who is logged in, or of the user where nobody is (`C_SetPIN`).
    func changePIN(from old: LoginProof, to new: LoginProof) throws(CryptokiError) { throw .unwritten }

    /// Sets the user's PIN as the security officer, who must be logged in (`C_InitPIN`).
    func initializePIN(_ new: LoginProof) throws(CryptokiError) { throw .unwritten }

    /// The key with that `CKA_ID`. Looked for once and then remembered until logout.
    ///
    /// - Throws: `keyAbsent`, `keyAmbiguous`, `malformed` (its public half is no point on P-256).
    func key(id: Data) throws(CryptokiError) -> TokenKey { throw .unwritten }

    /// The one key that fits an `id` and a label, each where given.
    func key(id: Data?, label: String?) throws(CryptokiError) -> TokenKey { throw .unwritten }

    /// All P-256 keys that can be seen: private ones only after login. What is no sound P-256 key is left out.
    func keys() throws(CryptokiError) -> [TokenKey] { throw .unwritten }

    /// Whether any key or certificate has that `CKA_ID`.
    func isOccupied(id: Data) throws(CryptokiError) -> Bool { throw .unwritten }

    /// Generates a key pair by the template ladder of section 7.2, and checks it as section 1.6 says: not extractable,
    /// `CKA_VALUE` unreadable, the point on the curve. The self-test is ``prove(_:with:)``.
    ///
    /// - Throws: `occupied`, `unsound` (both halves were destroyed), `unsupported`, `returned`.
    func generateKeyPair(_ request: KeyPairRequest) throws(CryptokiError) -> TokenKey { throw .unwritten }

    /// Proves that the private half belongs to the public half: signs random bytes and verifies with swift-crypto, or
    /// for a key that only derives agrees with a key of our own.
    ///
    /// - Throws: `unsound`.
    func prove(_ key: TokenKey, with proof: LoginProof? = nil) throws(CryptokiError) { throw .unwritten }

    /// Checks what section 1.6 asks of any key before it is trusted: not extractable and `CKA_VALUE` unreadable.
    ///
    /// - Throws: `unsound`.
    func checkProtection(of key: TokenKey) throws(CryptokiError) { throw .unwritten }

    /// Destroys both halves. What is gone already is no error; read ``ModuleProfile/deletion`` for what it is worth.
    func destroyKey(id: Data) throws(CryptokiError) { throw .unwritten }

    /// ECDSA over a digest that was computed in the host.
    ///
    /// - Parameter proof: shown between `C_SignInit` and `C_Sign` (`CKU_CONTEXT_SPECIFIC`). Give it exactly when
    ///   ``TokenKey/Attributes/alwaysAuthenticates`` is true.
    /// - Throws: `loginNeeded`, `touchTimedOut`, `returned`.
    func sign(_ digest: MessageDigest, with key: TokenKey, proof: LoginProof? = nil) throws(CryptokiError)
        -> ECDSASignature
    { throw .unwritten }

    /// ECDH with another party's public key (`CKM_ECDH1_DERIVE`, no KDF): the x coordinate, 32 bytes.
    func sharedSecret(of key: TokenKey, with peer: PublicKey, proof: LoginProof? = nil) throws(CryptokiError)
        -> SecretBytes
    { throw .unwritten }

    /// The X.509 certificates, or those of one `CKA_ID`.
    func certificates(id: Data? = nil) throws(CryptokiError) -> [TokenCertificate] { throw .unwritten }
}

extension CryptokiError {
    static let unwritten = CryptokiError(.unsupported, reason: "it is not written yet")
}
