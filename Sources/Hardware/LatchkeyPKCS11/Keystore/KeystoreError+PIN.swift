package import Latchkey

/// What a token checks before an operation.
enum TokenSecret: Sendable {
    case pin
    case securityOfficerPIN
    /// A YubiKey's management key, which Yubico's module accepts as the security officer's PIN. If
    /// the PIN protects the key on the card, the module accepts the PIN instead. `isProtected` is
    /// nil if this is unknown.
    case managementKey(isProtected: Bool?)
    case puk

    /// The secret that the security officer gives to a module.
    static func officer(_ profile: ModuleProfile, _ card: PIVCardStatus?) -> TokenSecret {
        profile.usesSlotIDs
            ? .managementKey(isProtected: card?.isManagementKeyProtected) : .securityOfficerPIN
    }

    private var isManagementKey: Bool { if case .managementKey = self { true } else { false } }

    /// The meaning of an answer about a PIN; nil for another answer.
    func meaning(of value: ReturnValue, _ profile: ModuleProfile?) -> Meaning? {
        switch value {
        case .pinIncorrect, .pinInvalid, .pinLenRange: wrong
        // Yubico's module: no PIN protects the key (the first), or the entry is no key of 48
        // hexadecimal digits (the second).
        case .userPINNotInitialized where isManagementKey, .argumentsBad where isManagementKey:
            wrong
        case .pinLocked: locked(profile)
        default: nil
        }
    }

    private var wrong: Meaning {
        switch self {
        case .pin: (.wrongProof, "the PIN is wrong", "Try again with the right PIN.")
        case .securityOfficerPIN:
            (
                .wrongProof, "the security officer's PIN is wrong",
                "Try again with the security officer's PIN, which is not the user's PIN."
            )
        case .managementKey(isProtected: true?):
            (
                .wrongProof,
                "the entry is neither the PIN, which protects the card's management key, nor that key",
                "Enter the card's PIN."
            )
        case .managementKey(isProtected: false?):
            (
                .wrongProof, "the management key is wrong",
                "Enter its 48 hexadecimal digits. This card does not accept the PIN in its place."
            )
        case .managementKey(isProtected: nil):
            (
                .wrongProof, "the management key is wrong",
                "Enter its 48 hexadecimal digits; or, only if the card protects the key (`ykman piv access "
                    + "change-management-key --protect`), the PIN."
            )
        case .puk:
            (
                .wrongProof, "the PUK is wrong",
                "Try again with the PUK. After a few wrong ones it is blocked, and only a reset that deletes all keys helps."
            )
        }
    }

    private func locked(_ profile: ModuleProfile?) -> Meaning {
        switch self {
        case .pin:
            (
                .lockedOut, "the token's PIN is locked after too many wrong PINs",
                ModuleProfile.unblocking(profile)
            )
        // A management key has no counter: the module sent the entry to the card as the PIN, which
        // protects the key.
        case .managementKey: Self.pin.locked(profile)
        case .securityOfficerPIN:
            (
                .lockedOut, "the security officer's PIN is locked after too many wrong PINs",
                "Erase the token with its manufacturer's program, which deletes all keys."
            )
        case .puk:
            (
                .lockedOut, "the PUK is blocked after too many wrong ones",
                Self.resetAdvice
            )
        }
    }

    fileprivate static let resetAdvice: Recovery =
        "Only a reset helps, which deletes all keys and certificates of the card: `ykman piv reset`."
}

extension ModuleProfile {
    /// How to set a new PIN when the PIN is locked.
    fileprivate static func unblocking(_ profile: ModuleProfile?) -> Recovery {
        switch profile?.unblocking {
        case .securityOfficer, nil:
            Recovery("Set a new PIN with the security officer's PIN.", .unblockPIN)
        case .prefixedSetPIN:
            Recovery(
                "Set a new PIN with the PUK, for example with `ykman piv access`.", .unblockPIN)
        case .program(let program): "Set a new PIN with the PUK: `\(program)`."
        }
    }
}

extension KeystoreError {
    /// - Parameter mayPromptItself: Whether the token reports that it needs no login, so that it or
    ///   its driver may prompt in another way.
    package static func noUserPIN(
        _ profile: ModuleProfile, mayPromptItself: Bool = false
    ) -> KeystoreError {
        guard !mayPromptItself else {
            return KeystoreError(
                code: .passcodeNotSet,
                reason: "the token reports neither a user PIN nor that it needs a login",
                recovery: Recovery(
                    "If the token or its driver prompts itself, choose the login at the reader.",
                    .enterPINAtReader))
        }
        let recovery: Recovery =
            switch profile.unblocking {
            case .securityOfficer:
                Recovery("Set one with the security officer's PIN.", .initializeTokenPIN)
            case .prefixedSetPIN, .program: "Set one with the card's own program."
            }
        return KeystoreError(
            code: .passcodeNotSet, reason: "the token has no user PIN yet", recovery: recovery)
    }

    /// - Parameter isPUKBlocked: Whether the PIN can't be unblocked either.
    package static func pinLocked(
        _ profile: ModuleProfile, _ token: TokenInformation? = nil, isPUKBlocked: Bool = false,
        underlying: CryptokiError? = nil
    ) -> KeystoreError {
        guard !isPUKBlocked else {
            return .pukBlocked(reason: "the PIN and the PUK are blocked after too many wrong ones")
        }
        return KeystoreError(
            code: .lockedOut, reason: "the token's PIN is locked after too many wrong PINs",
            recovery: token?.isOpenPGP == true
                ? "Set a new PIN with the Admin PIN: `\(TokenInformation.openPGPProgram)`."
                : ModuleProfile.unblocking(profile),
            underlying: underlying.map { UnderlyingError($0) })
    }

    static func pukBlocked(reason: String = "the PUK is blocked after too many wrong ones")
        -> KeystoreError
    {
        KeystoreError(
            code: .lockedOut, reason: reason, recovery: TokenSecret.resetAdvice, attemptsLeft: 0)
    }

    /// This error with the attempts that are left for a wrong PUK or security officer's PIN;
    /// unchanged if it is another error or the number is unknown.
    func counting(_ left: Int?) -> KeystoreError {
        guard code == .wrongProof, let left else { return self }
        guard left > 0 else { return .pukBlocked().during(operation) }
        let count = left == 1 ? "One attempt is left" : "\(left) attempts are left"
        return KeystoreError(
            operation: operation, code: code, reason: reason,
            recovery: Recovery("\(count).").then(recoveryAction),
            attemptsLeft: left,
            underlying: underlying)
    }

    /// The error for a new PIN that the token did not accept after a successful login; nil if the
    /// error is another one.
    static func newPINRefused(_ error: CryptokiError) -> KeystoreError? {
        guard error.function == "C_SetPIN" || error.function == "C_InitPIN", error.blamesNewPIN
        else { return nil }
        return KeystoreError(
            code: .invalidInput, reason: "the token does not accept the new PIN",
            recovery:
                "Choose another PIN, for example one of six to eight digits. The old PIN is still valid.",
            underlying: UnderlyingError(error))
    }

    /// - Parameter version: The first version of ykcs11 that can use the key.
    static func unusableManagementKey(_ version: String) -> KeystoreError {
        .unsupported(
            "the card's management key is an AES key, which this version of ykcs11 can't use",
            recovery:
                "Install ykcs11 \(version) or newer, or give the card a 3DES management key (`ykman piv access "
                + "change-management-key --algorithm TDES`), or create the key with `ykman piv keys generate` and adopt it."
        )
    }
}

extension CryptokiError {
    /// Whether the answer can mean that the module refused the new PIN. OpenSC passes on its card's
    /// answer to the data.
    fileprivate var blamesNewPIN: Bool {
        switch returnValue {
        case .pinInvalid, .pinLenRange, .pinTooWeak, .dataInvalid, .dataLenRange, .argumentsBad:
            true
        default: false
        }
    }
}
