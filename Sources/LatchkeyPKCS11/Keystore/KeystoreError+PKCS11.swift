internal import Latchkey

extension KeystoreError {
    /// The error for the user that a Cryptoki error means, unless the calling operation knows more.
    init(_ error: CryptokiError, during operation: String, profile: ModuleProfile? = nil) {
        let meaning = Meaning(error, profile)
        self.init(
            operation: operation, code: meaning.code, reason: meaning.reason, recovery: meaning.recovery,
            underlying: Underlying(error))
    }
}

extension KeystoreError.Underlying {
    init(_ error: CryptokiError) {
        self.init(
            layer: "pkcs11", rawCode: error.returnValue.map { UInt32(truncatingIfNeeded: $0.rawValue) },
            text: error.description)
    }
}

/// Code, reason and recovery of a Cryptoki error.
private struct Meaning {
    let code: KeystoreError.Code
    let reason: String
    let recovery: String

    private init(_ code: KeystoreError.Code, _ reason: String, _ recovery: String) {
        self.code = code
        self.reason = reason
        self.recovery = recovery
    }

    init(_ error: CryptokiError, _ profile: ModuleProfile?) {
        switch error.kind {
        case .returned(let value): self.init(value, error, profile)
        case .module(let failure): self.init(failure, error)
        default: self.init(error.kind, error)
        }
    }

    private init(_ kind: CryptokiError.Kind, _ error: CryptokiError) {
        self =
            switch kind {
            case .tokenAbsent:
                Meaning(.unavailable, error.reason, "Plug the token in and try again.")
            case .noReaders:
                Meaning(
                    .unavailable, error.reason,
                    "Plug the token in. Then check that pcscd runs, that polkit lets you use it, and that no other "
                        + "program (scdaemon of GnuPG, for example) holds the card.")
            case .tokenAmbiguous:
                Meaning(.conflict, error.reason, "Name one of them by `serial=` and `module-path=` in the URI.")
            case .keyAmbiguous:
                Meaning(.conflict, error.reason, "Name one of them by `id=` in the URI.")
            case .keyAbsent:
                Meaning(.notFound, error.reason, "List the token's keys with `latchkey token list`.")
            case .occupied:
                Meaning(.conflict, error.reason, "Adopt the existing key by its URI, or delete it first.")
            case .locked:
                Meaning(.transient, error.reason, "Try again when no other program creates a key on the token.")
            case .lockUnavailable:
                Meaning(
                    .unavailable, error.reason,
                    "Make yourself the owner of the lock directory (chown), run chmod 700 on it, then try again.")
            case .leftUnlocked:
                Meaning(.unavailable, error.reason, "Unplug the token and plug it in, then try again.")
            case .timedOut:
                Meaning(.transient, error.reason, "Try again; if it happens again, unplug the token and plug it in.")
            case .wedged:
                Meaning(
                    .unavailable, error.reason,
                    "Unplug the token, plug it in, and restart this program; isolate the module if it happens more "
                        + "often.")
            case .cancelled:
                Meaning(.cancelled, error.reason, "Start again when you are ready.")
            case .touchTimedOut:
                Meaning(.cancelled, error.reason, "Try again, and touch the token when it blinks.")
            case .loginNeeded:
                Meaning(.refused, error.reason, "Try again with the token's PIN.")
            case .unsupported:
                Meaning(.unsupported, error.reason, "Use another token or another module.")
            case .unsound:
                Meaning(.refused, error.reason, "Do not use this token for keys that must not leave it.")
            case .invalidURI:
                Meaning(.invalidInput, error.reason, "Write a PKCS#11 URI (RFC 7512), for example `pkcs11:token=work`.")
            case .malformed, .returned, .module:
                Meaning(.failed, error.description, "Run `latchkey doctor` and report its output.")
            }
    }

    private init(_ failure: ModuleFailure, _ error: CryptokiError) {
        let recovery =
            switch failure {
            case .missing: "Install the module, or correct `module-path=` in the URI."
            case .notAModule: "Name a PKCS#11 module, for example /usr/lib/x86_64-linux-gnu/libykcs11.so."
            case .writableByOthers:
                "Change the owner of the file to root or to you (chown) and make it writable only by the owner (chmod go-w)."
            case .wrongArchitecture: "Install the module for this machine's architecture."
            case .unloadable: "Install the missing libraries; `ldd` lists them."
            case .initializeFailed: "Check that the module's requirements (pcscd, a TPM, its configuration) are met."
            case .hanging: "Check that the module's requirements (pcscd, a TPM) respond, and restart this program."
            case .notIsolated: "Install p11-kit and p11-kit-modules, or use the module without isolation."
            }
        self.init(.unavailable, error.reason, recovery)
    }

    private init(_ value: ReturnValue, _ error: CryptokiError, _ profile: ModuleProfile?) {
        self =
            switch value {
            case .pinIncorrect, .pinInvalid, .pinLenRange:
                Meaning(.wrongProof, "the PIN is wrong", "Try again with the right PIN.")
            case .pinLocked:
                Meaning(.lockedOut, "the token's PIN is locked after too many wrong PINs", Self.unblocking(profile))
            case .pinExpired:
                Meaning(.refused, "the token requires a new PIN", "Change it with `latchkey token pin`.")
            case .pinTooWeak:
                Meaning(.invalidInput, "the token refused the new PIN as too weak", "Choose a longer one.")
            case .userPINNotInitialized:
                Meaning(.passcodeNotSet, "the token has no user PIN yet", "Set one with `latchkey token pin`.")
            case .userNotLoggedIn:
                Meaning(.refused, "the token requires its PIN again", "Try again with the token's PIN.")
            case .functionCanceled, .cancel, .functionRejected:
                Meaning(.cancelled, "it was cancelled at the token", "Start again when you are ready.")
            case .deviceRemoved, .tokenNotPresent, .tokenNotRecognized, .slotIDInvalid:
                Meaning(.unavailable, "the token was removed", "Plug the token in and try again.")
            case .deviceError:
                Meaning(
                    .unavailable, "the token does not answer: \(value)",
                    "Unplug the token and plug it in; check that no other program holds it.")
            case .deviceMemory:
                Meaning(.unavailable, "the token is full", "Delete keys or certificates that are not needed.")
            case .sessionCount:
                Meaning(.transient, "other programs use all of the token's sessions", "Try again in a moment.")
            case .tokenWriteProtected, .sessionReadOnly, .actionProhibited:
                Meaning(.refused, "the token can't be written to: \(value)", "Use another token.")
            case .functionNotSupported, .mechanismInvalid, .mechanismParamInvalid, .curveNotSupported,
                .domainParamsInvalid, .templateInconsistent, .attributeTypeInvalid, .attributeValueInvalid,
                .keyTypeInconsistent, .keyFunctionNotPermitted, .keySizeRange, .userTypeInvalid:
                Meaning(
                    .unsupported, "the token or its module can't do it: \(error)",
                    "Use another key, token or version of the module.")
            default:
                Meaning(
                    .failed, "the token's module failed: \(error)", "Run `latchkey doctor` and report its output.")
            }
    }

    fileprivate static func unblocking(_ profile: ModuleProfile?) -> String {
        switch profile?.unblocking {
        case .securityOfficer, nil: "Set a new PIN with the security officer's PIN: `latchkey token pin --unblock`."
        case .prefixedSetPIN: "Set a new PIN with the PUK: `latchkey token pin --unblock`, or `ykman piv access`."
        case .program(let program): "Set a new PIN with the PUK: `\(program)`."
        }
    }
}

// Tokens and keys that are not the stored ones.
extension KeystoreError {
    static func otherToken(_ operation: String, wanted: TokenName, found: TokenInformation) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .wrongDevice,
            reason: "the key is on the token ‘\(wanted.label)’ with serial number \(wanted.serial), and this is "
                + "‘\(found.label)’ with serial number \(found.serial)",
            recovery: "Plug in the token on which the key was created, or set up again with this one.")
    }

    /// Without a serial number it is unknown whether the key or the token is another one.
    static func keyGone(_ operation: String, _ name: TokenName) -> KeystoreError {
        guard name.hasSerial else {
            return KeystoreError(
                operation: operation, code: .wrongDevice,
                reason: "the key is not on the token ‘\(name.label)’, which has no serial number to identify it",
                recovery: "Plug in the token on which the key was created; if this is it, set up again.")
        }
        return .notFound(
            operation, "the key is no longer on the token ‘\(name.label)’",
            recovery: "It was deleted there, or the token was erased: set up again.")
    }

    static func keyReplaced(_ operation: String, _ name: TokenName) -> KeystoreError {
        guard name.hasSerial else { return keyGone(operation, name) }
        return KeystoreError(
            operation: operation, code: .invalidated,
            reason: "another key has replaced it on the token ‘\(name.label)’",
            recovery: "Data that the old key protected is lost: set up again.")
    }

    static func otherBackend(_ operation: String, _ backend: String) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .wrongDevice, reason: "it belongs to a keystore of the kind \(backend)",
            recovery: "Use it with the hardware on which it was created.")
    }

    static func wrongSignature(_ operation: String) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .failed, reason: "the token's signature does not verify with the key",
            recovery: "Try again; if it happens again, do not trust the token.")
    }
}

// PINs and management keys.
extension KeystoreError {
    static func pinLocked(
        _ operation: String, _ profile: ModuleProfile, underlying: CryptokiError? = nil
    ) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .lockedOut, reason: "the token's PIN is locked after too many wrong PINs",
            recovery: Meaning.unblocking(profile), attemptsLeft: nil, underlying: underlying.map { Underlying($0) })
    }

    /// The error for a new PIN that the token did not accept after a successful login; nil if the error is another one.
    static func newPINRefused(_ operation: String, _ error: CryptokiError) -> KeystoreError? {
        guard error.function == "C_SetPIN" || error.function == "C_InitPIN", error.blamesNewPIN else { return nil }
        return KeystoreError(
            operation: operation, code: .invalidInput, reason: "the token does not accept the new PIN",
            recovery:
                "Choose another one, of six to eight digits if nothing else is known; the old one is still valid.",
            underlying: Underlying(error))
    }

    /// The firmware from which on YubiKeys have an AES-192 management key (Yubico, 5.7 release notes), written 5.70 by ykcs11.
    private static let firmwareWithAES = ModuleInformation.Version(major: 5, minor: 70)

    /// The error for a refused management key if the module can't use the card's kind of key: ykcs11 then answers as for a
    /// wrong one. nil if the error is another one.
    static func unusableManagementKey(
        _ error: CryptokiError, _ operation: String, _ snapshot: TokenSnapshot
    ) -> KeystoreError? {
        guard error.returnValue == .pinIncorrect,
            let version = snapshot.token.module.profile.versionWithAESManagementKey,
            snapshot.information.firmwareVersion >= firmwareWithAES
        else { return nil }
        return KeystoreError(
            operation: operation, code: .unsupported,
            reason:
                "this version of ykcs11 can't use AES management keys, which YubiKeys have from firmware 5.7 on; or it "
                + "is a 3DES key and was wrong",
            recovery: "Install ykcs11 \(version) or newer, or give the card a 3DES management key (`ykman piv access "
                + "change-management-key --algorithm TDES`), or create the key with `ykman piv keys generate` and adopt it.",
            underlying: Underlying(error))
    }

    /// The error for a key that is lent for several uses although its policy requires a proof for each use.
    static func proofForEachUse(_ operation: String) -> KeystoreError {
        .unsupported(
            operation, "the key's policy requires the PIN for each use",
            recovery: "Sign one digest at a time, or create a key with a reuse time.")
    }
}

extension CryptokiError {
    /// Whether the answer can mean that the module refused the new PIN. OpenSC passes on its card's answer to the data.
    fileprivate var blamesNewPIN: Bool {
        switch returnValue {
        case .pinInvalid, .pinLenRange, .pinTooWeak, .dataInvalid, .dataLenRange, .argumentsBad: true
        default: false
        }
    }
}
