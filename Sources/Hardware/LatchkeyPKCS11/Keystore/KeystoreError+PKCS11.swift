package import Latchkey

extension KeystoreError {
    /// Converts a Cryptoki error to an error for the user. A caller that knows the cause better
    /// creates its own error.
    ///
    /// - Parameter secret: What the token checked. Cryptoki reports all of them as "the PIN".
    init(_ error: CryptokiError, profile: ModuleProfile? = nil, checking secret: TokenSecret = .pin)
    {
        let (code, reason, recovery): Meaning =
            switch error.kind {
            case .returned(.generalError) where profile?.failsDuringWrites == true:
                (
                    .transient, "the token's module failed: \(error)",
                    "Try again: another process may have been writing to the token."
                )
            case .returned(let value):
                secret.meaning(of: value, profile) ?? value.meaning(in: error)
            case .malformed: (.failed, error.description, reportAdvice)
            case .module(let failure): (.unavailable, error.reason, Recovery(failure.recovery))
            case let kind:
                (kind.codeAndRecovery.0, error.reason, error.recovery ?? kind.codeAndRecovery.1)
            }
        self.init(
            code: code, reason: reason, recovery: recovery, underlying: UnderlyingError(error))
    }
}

extension UnderlyingError {
    init(_ error: CryptokiError) {
        self.init(
            layer: "pkcs11",
            rawCode: error.returnValue.map { UInt32(truncatingIfNeeded: $0.rawValue) },
            text: error.description)
    }
}

/// The error for the user that corresponds to a Cryptoki error.
private typealias Meaning = (code: CommonErrorCode, reason: String, recovery: Recovery)

/// scdaemon holds a card exclusively unless both options are set.
private let otherPrograms =
    "GnuPG's scdaemon can hold a card: run `gpgconf --kill scdaemon`, and set both `disable-ccid` and `pcsc-shared` in "
    + "scdaemon.conf."

private let reportAdvice = Recovery("Report this error and the token.", .reportDiagnosis)

extension CryptokiError.Kind {
    fileprivate var codeAndRecovery: (CommonErrorCode, Recovery) {
        switch self {
        case .tokenAbsent:
            (
                .unavailable,
                Recovery("Plug the token in and try again. \(otherPrograms)", .listTokens)
            )
        case .uninitialized: (.wrongState, Recovery("Initialize it.", .initializeToken))
        case .noReaders:
            (
                .unavailable,
                "Plug the token in. Then check that pcscd runs, and that polkit lets you use it. \(otherPrograms)"
            )
        case .tokenAmbiguous:
            (.conflict, Recovery("Use the URI of one of them.", .listTokens))
        case .keyAmbiguous: (.conflict, "Select one key with `id=` in the URI.")
        case .keyAbsent: (.notFound, Recovery("Name a key that is on the token.", .listTokenKeys))
        case .otherKeyType:
            (
                .unsupported,
                Recovery("Use a P-256 key. To create one, omit `id=` in the URI.", .listTokenKeys)
            )
        case .occupied: (.conflict, "Adopt the existing key by its URI, or delete it first.")
        case .locked: (.transient, "Try again when no other program creates a key on the token.")
        case .lockUnavailable:
            (
                .unavailable,
                "Make yourself the owner of the lock directory (chown), run chmod 700 on it, then try again."
            )
        case .leftUnlocked: (.unavailable, "Unplug the token and plug it in, then try again.")
        case .timedOut:
            (.transient, "Try again; if it happens again, unplug the token and plug it in.")
        case .unresponsive:
            (
                .unavailable,
                "Unplug the token, plug it in, and restart this program. If this happens often, isolate the module."
            )
        case .cancelled: (.cancelled, "Start again when you are ready.")
        case .touchTimedOut: (.cancelled, "Try again, and touch the token when it blinks.")
        case .loginNeeded: (.transient, "Try again with the token's PIN.")
        case .unsupported: (.unsupported, "Use another token or another module.")
        case .unsound: (.refused, "Do not use this token for keys that must not leave it.")
        case .invalidURI:
            (.invalidInput, "Write a PKCS#11 URI (RFC 7512), for example `pkcs11:token=work`.")
        case .malformed, .returned, .module, .stale: (.failed, reportAdvice)
        }
    }
}

extension ModuleFailure {
    fileprivate var recovery: String {
        switch self {
        case .missing: "Install the module, or correct `module-path=` in the URI."
        case .notAModule:
            "Name a PKCS#11 module, for example /usr/lib/x86_64-linux-gnu/libykcs11.so."
        case .writableByOthers:
            "Change the owner of the file to root or to you (chown) and make it writable only by the owner (chmod go-w)."
        case .wrongArchitecture: "Install the module for this machine's architecture."
        case .unloadable: "Install the missing libraries; `ldd` lists them."
        case .proxy:
            "Remove `module-path=` from the URI: Latchkey then uses each module that p11-kit configures."
        case .initializeFailed(.argumentsBad):
            "Check the module's requirements. One that needs parameters, such as NSS softoken, gets them from `x-init-reserved` "
                + "in its p11-kit configuration (pkcs11.conf(5))."
        case .initializeFailed:
            "Check that the module's requirements (pcscd, a TPM, its configuration) are met."
        case .hanging:
            "Check that the module's requirements (pcscd, a TPM) respond, and restart this program."
        case .notIsolated:
            "Install p11-kit and p11-kit-modules, or use the module without isolation."
        }
    }
}

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
    fileprivate func meaning(of value: ReturnValue, _ profile: ModuleProfile?) -> Meaning? {
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

extension ReturnValue {
    fileprivate func meaning(in error: CryptokiError) -> Meaning {
        switch self {
        case .pinExpired:
            (.refused, "the token requires a new PIN", Recovery("Change it.", .changeTokenPIN))
        case .pinTooWeak:
            (.invalidInput, "the token refused the new PIN as too weak", "Choose a longer one.")
        case .userPINNotInitialized:
            (
                .passcodeNotSet, "the token has no user PIN yet",
                Recovery("Set one.", .initializeTokenPIN)
            )
        case .userNotLoggedIn:
            (.transient, "the token requires its PIN again", "Try again with the token's PIN.")
        case .functionCanceled, .cancel, .functionRejected:
            (
                .cancelled, "the operation was cancelled at the token",
                "Start again when you are ready."
            )
        case .deviceRemoved, .tokenNotPresent, .tokenNotRecognized, .slotIDInvalid:
            (.unavailable, "the token was removed", "Plug the token in and try again.")
        case .deviceError:
            (
                .unavailable, "the token does not answer: \(self)",
                "Unplug the token and plug it in; check that no other program holds it."
            )
        case .deviceMemory:
            (.unavailable, "the token is full", "Delete keys or certificates that are not needed.")
        case .sessionCount:
            (.transient, "other programs use all of the token's sessions", "Try again in a moment.")
        case .tokenWriteProtected, .sessionReadOnly, .actionProhibited:
            (.refused, "the token can't be written to: \(self)", "Use another token.")
        case .functionNotSupported, .mechanismInvalid, .mechanismParamInvalid, .curveNotSupported,
            .domainParamsInvalid, .templateInconsistent, .attributeTypeInvalid,
            .attributeValueInvalid,
            .keyTypeInconsistent, .keyFunctionNotPermitted, .keySizeRange, .userTypeInvalid:
            (
                .unsupported, "the token or its module does not support the operation: \(error)",
                "Use another key, token or version of the module."
            )
        default: (.failed, "the token's module failed: \(error)", reportAdvice)
        }
    }
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

// Tokens and keys that are not the stored ones.
extension KeystoreError {
    /// The error for a key on another token. Modules report different manufacturers for one card,
    /// so a key that was created through another module seems to be on another token.
    static func otherToken(wanted: TokenName, found: TokenInformation, through module: Module)
        -> KeystoreError
    {
        if let maker = wanted.module, module.profile.family != maker.family,
            wanted.manufacturer != found.manufacturer
        {
            return KeystoreError(
                code: .wrongDevice,
                reason:
                    "the key was created through \(maker.name), on the token ‘\(wanted.label)’ with serial number "
                    + "\(wanted.serial), and the module in use is \(module.path)",
                recovery: Recovery(
                    "Name \(maker.name)'s file with `module-path=` in the URI. To use the key through this module, "
                        + "adopt it by a URI with `id=`.", .listTokenKeys))
        }
        guard wanted.serial != found.serial || !wanted.hasSerial || wanted.label == found.label
        else {
            return KeystoreError(
                code: .wrongDevice,
                reason:
                    "the key is in the slot ‘\(wanted.label)’ of the card, and the URI names ‘\(found.label)’",
                recovery: Recovery("Use the URI of that slot.", .listTokens))
        }
        let isSameName = wanted.label == found.label && wanted.serial == found.serial
        let (wantedModel, foundModel) =
            isSameName ? (" \(wanted.model)", " \(found.model)") : ("", "")
        return KeystoreError(
            code: .wrongDevice,
            reason:
                "the key is on the token\(wantedModel) ‘\(wanted.label)’ with serial number \(wanted.serial), and this "
                + "is\(foundModel) ‘\(found.label)’ with serial number \(found.serial)",
            recovery:
                "Plug in the token on which the key was created, or set up again with this one.")
    }

    /// Without a serial number it is unknown whether the key or the token is another one.
    static func keyGone(_ name: TokenName) -> KeystoreError {
        guard name.hasSerial else {
            return KeystoreError(
                code: .wrongDevice,
                reason:
                    "the key is not on the token ‘\(name.label)’, which has no serial number to identify it",
                recovery:
                    "Plug in the token on which the key was created. If this is that token, set up again."
            )
        }
        return .notFound(
            "the key is no longer on the token ‘\(name.label)’",
            recovery: "Set up again: the key was deleted, or the token was erased.")
    }

    static func keyReplaced(_ name: TokenName) -> KeystoreError {
        guard name.hasSerial else { return keyGone(name) }
        return KeystoreError(
            code: .invalidated,
            reason: "another key has replaced the key on the token ‘\(name.label)’",
            recovery: "Data that the old key protected is lost: set up again.")
    }

    static func otherBackend(_ backend: String) -> KeystoreError {
        KeystoreError(
            code: .wrongDevice,
            reason: "the key or secret belongs to a keystore of the kind \(backend)",
            recovery: "Use it with the hardware on which it was created.")
    }

    static var wrongSignature: KeystoreError {
        KeystoreError(
            code: .failed, reason: "the token's signature does not verify with the key",
            recovery: "Try again; if it happens again, do not trust the token.")
    }
}

// PINs and management keys.
extension KeystoreError {
    package static func noUserPIN(_ profile: ModuleProfile) -> KeystoreError {
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
