package import FoundationEssentials
package import Latchkey
internal import TPM2

/// Sign-in to the machine. The TPM checks the PIN; for a finger, the broker's word is the yes. A
/// secret of the user, for example that of a keyring, is opened by the TPM after either.
///
/// Any program of a user can set the user's first PIN, so a PIN signs in only after PAM accepted the
/// login password and it opened a secret that is sealed under that PIN. The permission names the
/// index of the PIN: one that was removed and made again has another Name. It also names the account:
/// a new one with the number of a deleted one has no permission.
///
/// Another program can replace the index between two calls. So each call finds the PIN, and compares
/// it with what it relies on, in one piece of work.
extension ApprovalAuthority {
    /// Allows the sign-in with a finger, and with the PIN that is set now if the secret is sealed
    /// under it. A secret that is sealed under another PIN allows nothing. The caller has verified
    /// that the user's login password opens the secret.
    ///
    /// - Parameter sealed: From ``sealForSignIn(_:with:of:)``.
    /// - Returns: Whether the sign-in is allowed. If not, nothing changed.
    package func allowSignIn(of user: UInt32, named name: String, sealedIn sealed: Data)
        async throws(KeystoreError) -> Bool
    {
        do throws(KeystoreError) {
            return try await work { (tpm, store) in
                let pin = try tpm.settledPIN(of: user, store)
                guard let blob = try Self.current(sealed, of: user, pin, store) else {
                    return false
                }
                let area = blob.hasPIN ? pin?.publicArea : nil
                try store.update(user) {
                    $0.signIn = AuthorityState.SignIn(name: name, pin: area)
                }
                return true
            }
        } catch { throw error.during("allow the sign-in of a user") }
    }

    /// Ends the sign-in of a user.
    ///
    /// - Parameter name: The account whose permission ends; nil for any.
    package func denySignIn(of user: UInt32, named name: String? = nil)
        async throws(KeystoreError)
    {
        guard let signIn = store.current?.users[user]?.signIn, signIn.name == name ?? signIn.name
        else { return }
        do throws(KeystoreError) {
            if failure != nil { return try store.update(user) { $0.signIn = nil } }
            try await work { (_, store) in try store.update(user) { $0.signIn = nil } }
        } catch { throw error.during("end the sign-in of a user") }
    }

    /// Signs in with the PIN. If there is a sealed secret, opening it is the check of the PIN.
    ///
    /// - Parameter sealed: From ``sealForSignIn(_:with:of:)``. One that was sealed under other terms
    ///   is not opened.
    /// - Returns: The secret; nil without one, or if the TPM does not open it after the right PIN.
    /// - Throws: `KeystoreError` with code `wrongProof`, `lockedOut`, or `refused` if the user may
    ///   not sign in with a PIN.
    package func signIn(
        of user: UInt32, named name: String, with pin: PIN, opening sealed: Data?
    ) async throws(KeystoreError) -> SecretBytes? {
        do throws(KeystoreError) {
            guard signIn(of: user, named: name)?.hasPIN == true,
                let record = store.user(user).pin
            else {
                throw KeystoreError(
                    code: .refused, reason: "the user may not sign in with a PIN",
                    recovery: "Use the password.")
            }
            let blob = try Self.current(sealed, of: user, record, store)
            return try await work { (tpm, store) in
                guard let blob, blob.hasPIN else {
                    try tpm.check(pin, of: record, store)
                    return nil
                }
                return try tpm.open(blob, with: pin, of: record, user, store)
            }
        } catch { throw error.during("sign in") }
    }

    /// Opens the secret after a finger: the broker approves for this user only.
    ///
    /// - Throws: `KeystoreError` with code `refused` if the user may not sign in.
    package func openAfterFinger(_ sealed: Data, of user: UInt32, named name: String)
        async throws(KeystoreError) -> SecretBytes?
    {
        do throws(KeystoreError) {
            guard signIn(of: user, named: name) != nil else {
                throw KeystoreError(
                    code: .refused, reason: "the user may not sign in",
                    recovery: "Use the password.")
            }
            let record = store.user(user).pin
            guard let blob = try Self.current(sealed, of: user, record, store) else { return nil }
            return try await work { (tpm, store) in
                try tpm.open(blob, byFingerOf: user, record, store)
            }
        } catch { throw error.during("open a secret after a finger") }
    }

    /// Checks the PIN, seals a secret under the same PIN or the broker's approval for the user, and
    /// opens it once.
    ///
    /// - Parameter pin: nil after a finger: the secret is then sealed under the approval alone, because
    ///   any program of the user can set a first PIN.
    /// - Returns: The sealed secret, less than 4096 bytes.
    /// - Throws: `KeystoreError` with code `wrongProof`, `lockedOut`, or `notFound` without a PIN.
    package func sealForSignIn(
        _ secret: SecretBytes, with pin: PIN?, of user: UInt32
    ) async throws(KeystoreError) -> Data {
        do throws(KeystoreError) {
            return try await work { (tpm, store) in
                let record = try pin.map { (pin) in
                    guard let record = try tpm.settledPIN(of: user, store) else { throw Self.noPIN }
                    try tpm.check(pin, of: record, store)
                    return record
                }
                let blob = try tpm.seal(secret, for: user, record, store)
                guard try tpm.open(blob, byFingerOf: user, record, store) == secret else {
                    throw KeystoreError.damaged("the sealed secret does not open")
                }
                return try JSONEncoder().encode(blob)
            }
        } catch { throw error.during("seal a secret for the sign-in") }
    }

    /// Opens a secret with the PIN, also one that may not sign in, or after a finger.
    ///
    /// - Parameter pin: nil after a finger.
    /// - Returns: nil if it is not sealed under the PIN that is set now, or the TPM does not open it.
    /// - Throws: `KeystoreError` with code `wrongProof`, `lockedOut`, or `notFound` without a PIN.
    package func open(_ sealed: Data, with pin: PIN?, of user: UInt32) async throws(KeystoreError)
        -> SecretBytes?
    {
        do throws(KeystoreError) {
            return try await work { (tpm, store) in
                let record = try tpm.settledPIN(of: user, store)
                guard pin == nil || record != nil else { throw Self.noPIN }
                guard let blob = try Self.current(sealed, of: user, record, store) else {
                    return nil
                }
                guard let pin else { return try tpm.open(blob, byFingerOf: user, record, store) }
                guard let record, blob.hasPIN else { return nil }
                return try tpm.open(blob, with: pin, of: record, user, store)
            }
        } catch { throw error.during("open a secret of the sign-in") }
    }

    /// Whether a secret was sealed by this broker's key under the PIN that the user has now (true), or
    /// for a finger alone (false); nil for neither.
    package func opensWithPIN(_ sealed: Data, of user: UInt32) -> Bool? {
        try? Self.current(sealed, of: user, store.user(user).pin, store)?.hasPIN
    }

    /// - Returns: nil for no secret, and for one that was sealed under other terms.
    /// - Throws: `KeystoreError` with code `damaged` for bytes that are no sealed secret.
    private static func current(
        _ sealed: Data?, of user: UInt32, _ pin: AuthorityState.UserPIN?, _ store: AuthorityStore
    ) throws(KeystoreError) -> SignInBlob? {
        guard let sealed else { return nil }
        guard let blob = try? JSONDecoder().decode(SignInBlob.self, from: sealed),
            blob.version == SignInBlob.currentVersion
        else { throw .damaged("the sealed secret cannot be decoded") }
        guard !blob.hasPIN || pin != nil else { return nil }
        do {
            let branches = try SignInBlob.branches(for: user, blob.hasPIN ? pin : nil, store)
            let template = KeyTemplates.signInSecret(SignInBlob.policy(branches))
            return try PublicArea(unmarshalling: blob.publicArea).isMade(from: template)
                ? blob : nil
        } catch { throw .damaged("the sealed secret cannot be decoded") }
    }

    private static var noPIN: KeystoreError {
        .notFound("the user has no PIN", recovery: "Set one first.")
    }
}

/// A secret that the TPM opens after a user's PIN or the broker's approval for that user.
struct SignInBlob: Codable, Sendable {
    static let currentVersion = 1

    var version = currentVersion
    /// Whether the PIN opens it too. The public area decides; this says which one is expected.
    let hasPIN: Bool
    let publicArea: Data
    let privatePart: Data

    /// The branches of the policy: PIN, if there is one, and finger.
    static func branches(
        for user: UInt32, _ pin: AuthorityState.UserPIN?, _ store: AuthorityStore
    ) throws(TPMError) -> [PolicyDigest] {
        let authority = try PublicArea(unmarshalling: store.existing.publicArea).name
        let finger = PolicyDigest().signed(
            by: authority, policyRef: PresenceReference.signIn(of: user))
        guard let pin else { return [finger] }
        let index = try NVIndex(unmarshalling: pin.publicArea)
        return [
            PolicyDigest().secret(of: index.name, policyRef: PresenceReference.signInPIN), finger,
        ]
    }

    static func policy(_ branches: [PolicyDigest]) -> [UInt8] {
        (PolicyDigest.or(branches) ?? branches.first)?.bytes ?? []
    }

    func load(under parent: TPMObject) throws(TPMError) -> Load {
        guard let blob = PrivateBlob(bytes: Array(privatePart)) else {
            throw TPMError(.malformed, reason: "the sealed secret has no private part")
        }
        return Load(blob, try PublicArea(unmarshalling: publicArea), under: parent)
    }

    /// The cpHash of its only use, to which each proof is bound.
    var useHash: [UInt8] {
        get throws(TPMError) {
            let name = try PublicArea(unmarshalling: publicArea).name
            return Unseal(NamedHandle(named: name)).hash
        }
    }
}
