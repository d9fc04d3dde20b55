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
    var keepsLogin = true

    var module: ModuleProfile { token.module.profile }

    /// Whether an occupied slot can be detected. YubiKeys report it from firmware 5.3 on, which ykcs11 writes as 5.30; before,
    /// a key without a certificate is invisible.
    var showsOccupiedSlots: Bool {
        module.family != .ykcs11 || information.firmwareVersion >= ModuleInformation.Version(major: 5, minor: 30)
    }
}

extension TokenSnapshot {
    init(
        _ token: Token, _ information: TokenInformation, _ options: PKCS11Options, publicKey: PublicKey? = nil
    ) {
        self.init(
            token: token, information: information,
            profile: TokenProfile(token.module.profile, information: information, options: options),
            publicKey: publicKey, login: token.login)
    }
}

extension PKCS11Keystore {
    /// Reads the token's state and the public half of a key. Needs no login.
    ///
    /// - Parameter name: The expected token, if any. A different token is refused before it is used.
    func takeSnapshot(
        for id: Data? = nil, on name: TokenName? = nil
    ) async throws(KeystoreError) -> TokenSnapshot {
        let (token, wasKnown) = try await locator.token()
        let failure: KeystoreError
        do throws(CryptokiError) {
            if let name, !name.fits(token.information) {
                failure = .otherToken(wanted: name, found: token.information)
            } else {
                let (information, publicKey) = try await token.withSession { (session) throws(CryptokiError) in
                    let information = try session.tokenInformation()
                    // ykcs11 reports firmware 0.0 if it could not read the card, for example during another program's reset.
                    guard session.profile.family != .ykcs11 || information.firmwareVersion.major > 0 else {
                        throw CryptokiError(.deviceError, from: "C_GetTokenInfo")
                    }
                    return (information, try id.flatMap { (id) throws(CryptokiError) in try session.publicKey(id: id) })
                }
                return TokenSnapshot(token, information, options, publicKey: publicKey)
            }
        } catch {
            failure = KeystoreError(error, profile: token.module.profile)
            guard error.kind == .tokenAbsent else { throw failure }
        }
        // The known token was removed; the same URI may match another one now, or once the right one is plugged in.
        locator.forget()
        guard wasKnown else { throw failure }
        return try await takeSnapshot(for: id, on: name)
    }

    /// Finds the token and the key of a stored record, and checks that both are the stored ones.
    func takeSnapshot(of name: TokenName, withHash publicKeyHash: Data) async throws(KeystoreError) -> TokenSnapshot {
        let snapshot = try await takeSnapshot(for: name.id, on: name)
        try name.check(publicKeyHash, found: snapshot.publicKey?.fingerprint)
        return snapshot
    }

    /// The last known state of the token, for a use that does not prompt. Reads the token only if it is not known yet.
    func cachedSnapshot(of name: TokenName) async throws(KeystoreError) -> TokenSnapshot {
        let (token, _) = try await locator.token()
        guard name.fits(token.information) else {
            locator.forget()
            throw .otherToken(wanted: name, found: token.information)
        }
        return TokenSnapshot(token, token.information, options)
    }
}

extension TokenName {
    /// Checks the hash of a key's public half on the token; nil if the token has no key with this ID.
    ///
    /// - Throws: ``KeystoreError`` with code `notFound`, `invalidated` or `wrongDevice`.
    func check(_ publicKeyHash: Data, found: Data?) throws(KeystoreError) {
        guard let found else { throw .keyGone(self) }
        guard found == publicKeyHash else { throw .keyReplaced(self) }
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
    func token() async throws(KeystoreError) -> (token: Token, wasKnown: Bool) {
        if let token = known { return (token, true) }
        do {
            let token = try await Token.find(uri, options: options)
            found.withLock { $0 = token }
            return (token, false)
        } catch {
            throw KeystoreError(error)
        }
    }

    /// The token, if it was found already.
    var known: Token? { found.withLock { $0 } }

    /// Makes the next call look for the token again.
    func forget() { found.withLock { $0 = nil } }
}

/// The kind of a token and the policies that it can enforce.
struct TokenProfile: Sendable {
    let root: AssuranceLevel.Root
    /// Whether the token itself prompts for a PIN or fingerprint.
    let verifiesUserItself: Bool
    /// Whether it can have keys that need no login.
    let hasOpenKeys: Bool
    /// Whether its `CKA_ID`s name the slots of a PIV card.
    let isPIV: Bool
    /// The length of the user's PIN in bytes; nil if it is not known.
    let pinLength: ClosedRange<Int>?
    /// The length of the security officer's PIN in bytes; nil if it is not known.
    let officerPINLength: ClosedRange<Int>?

    init(_ profile: ModuleProfile, information: TokenInformation, options: PKCS11Options) {
        root =
            switch information.simulator(behind: profile) {
            case nil: .token
            case "swtpm": .swtpm
            default: .softhsm
            }
        verifiesUserItself =
            switch options.protectedPath {
            case .asTokenSays: information.flags.contains(.protectedAuthenticationPath)
            case .always: true
            case .never: false
            }
        hasOpenKeys = profile.family != .tpm2
        // The manufacturer is the one that OpenSC reports for a PIV card's token.
        isPIV = profile.identifiers == .slot || information.manufacturer == "piv_II"
        // Modules report wrong lengths for PIV cards: ykcs11 includes the management key's digits, OpenSC reports 4. The
        // right one is in NIST SP 800-73-4 part 2 section 2.4.3.
        pinLength = isPIV ? 6...8 : information.pinLength
        officerPINLength = information.pinLength
    }

    /// The policies that the token can enforce.
    ///
    /// tpm2-pkcs11 encrypts the authorization of every key under the PIN, so that all of its keys require it.
    ///
    /// A token that verifies the user itself accepts a fingerprint or a PIN, and PKCS#11 does not report which: this is
    /// `.userPresence`, and neither `.pin` nor `.biometryAny`. If the user types the PIN at the computer, it is `.pin`.
    var requirements: Set<AccessPolicy.Requirement> {
        let guarded: AccessPolicy.Requirement = verifiesUserItself ? .userPresence : .pin
        return hasOpenKeys ? [.none, guarded] : [guarded]
    }

    /// The user verification that the token enforces for a key.
    func presence(_ requirement: AccessPolicy.Requirement, needsTouch: Bool) -> AssuranceLevel.EnforcedPresence {
        switch requirement {
        case .none: needsTouch ? .touch : .none
        case .pin: needsTouch ? .touchAndPIN : .pin
        case .userPresence, .biometryAny, .biometryCurrentSet: .fingerOrPIN
        }
    }

    /// Refuses a policy that this token can't enforce, before any prompt.
    func check(_ policy: AccessPolicy) throws(KeystoreError) {
        guard requirements.contains(policy.requirement) else {
            throw .unsupported(
                "the token can't enforce the policy ‘\(policy)’",
                recovery: verifiesUserItself
                    ? "The token itself prompts for a PIN or fingerprint: use the policy `user-presence`."
                    : "The token supports only a PIN: use the policy `pin`.")
        }
        guard policy.attemptLimit == nil else {
            throw .unsupported(
                "a token can't limit the wrong PINs of a single key",
                recovery: "Omit the limit; the token's own limit applies.")
        }
    }
}

// PINs of a wrong length are not sent to the token: it would count them as attempts, or answer with a misleading code.
extension TokenProfile {
    /// Checks the length of the user's current PIN.
    ///
    /// - Throws: ``KeystoreError`` with code `wrongProof`.
    func check(_ pin: PIN, attemptsLeft: Int?) throws(KeystoreError) {
        guard let (range, count) = misfit(pin, in: pinLength) else { return }
        throw KeystoreError(
            code: .wrongProof,
            reason: "the token's PIN has \(range.lowerBound) to \(range.upperBound) bytes, and this one \(count)",
            recovery: "Try again with the token's PIN; this one was not sent.", attemptsLeft: attemptsLeft)
    }

    /// Checks the length of a new PIN of the user or the security officer.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput`.
    func checkNew(_ pin: PIN, of role: LoginRole = .user) throws(KeystoreError) {
        guard let (range, count) = misfit(pin, in: role == .user ? pinLength : officerPINLength) else { return }
        throw .invalidInput(
            "the token accepts PINs of \(range.lowerBound) to \(range.upperBound) bytes, and the new one has \(count)")
    }

    private func misfit(_ pin: PIN, in range: ClosedRange<Int>?) -> (range: ClosedRange<Int>, count: Int)? {
        let count = pin.withUnsafeBytes { $0.count }
        guard let range, !range.contains(count) else { return nil }
        return (range, count)
    }
}

extension PINStatus {
    /// The PIN status by the token's flags. The only number that they give is "one attempt left".
    init(_ information: TokenInformation) {
        let isLocked = information.flags.contains(.userPINLocked)
        let left: Int? =
            if isLocked { 0 } else if information.flags.contains(.userPINFinalTry) { 1 } else { nil }
        self.init(attemptsLeft: left, attemptLimit: nil, isLockedOut: isLocked)
    }
}
