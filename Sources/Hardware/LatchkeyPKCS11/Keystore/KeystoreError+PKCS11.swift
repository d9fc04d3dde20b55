internal import Latchkey

extension KeystoreError {
    /// Converts a Cryptoki error to an error for the user. A caller that knows the cause better
    /// creates its own error.
    ///
    /// - Parameter secret: What the token checked. Cryptoki reports all of them as "the PIN".
    init(_ error: CryptokiError, profile: ModuleProfile? = nil, checking secret: TokenSecret = .pin)
    {
        let (code, reason, recovery): Meaning =
            switch error.kind {
            case .returned(let value) where profile?.failsToRead(value) == true:
                (
                    .transient, "the token's module failed: \(error)",
                    "Try again: another process may have been writing to the token."
                )
            case .returned(.generalError)
            where profile?.family == .tpm2 && error.function == "C_Login":
                (
                    .failed, "the TPM does not load the token's keys, or does not answer: \(error)",
                    "Check that the TPM responds. If it was cleared or replaced (`tpm2_clear`), the token and its keys are lost: "
                        + "remove the token (`tpm2_ptool destroy`), create another one, and set up again."
                )
            case .returned(let value):
                secret.meaning(of: value, profile) ?? value.meaning(in: error)
            case .malformed: (.failed, error.description, reportAdvice)
            case .module(let failure):
                (.unavailable, error.reason, error.recovery ?? Recovery(failure.recovery))
            // Programs that hold cards do not matter to other tokens.
            case .tokenAbsent where profile?.hasCards == false:
                (
                    .unavailable, error.reason,
                    error.recovery ?? Recovery(CryptokiError.connectAnyToken, .listTokens)
                )
            case let kind:
                (kind.codeAndRecovery.0, error.reason, error.recovery ?? kind.codeAndRecovery.1)
            }
        let leftover = error.leftover.map {
            Recovery(
                "The token keeps an unused key with the CKA_ID \($0): delete it with the token's program.",
                .listTokenKeys)
        }
        self.init(
            code: code, reason: reason, recovery: leftover.map { recovery.then($0) } ?? recovery,
            underlying: UnderlyingError(error))
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
typealias Meaning = (code: CommonErrorCode, reason: String, recovery: Recovery)

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
        case .keyAmbiguous:
            (
                .conflict,
                Recovery("Select one key with both `id=` and `object=` in the URI.", .listTokenKeys)
            )
        case .keyReplaced:
            (.invalidated, "Data that the old key protected is lost: set up again.")
        case .keyAbsent: (.notFound, Recovery("Name a key that is on the token.", .listTokenKeys))
        case .otherKeyType:
            (
                .unsupported,
                Recovery("Use a P-256 key. To create one, omit `id=` in the URI.", .listTokenKeys)
            )
        case .occupied:
            (
                .conflict,
                Recovery(
                    "Adopt the existing key by its URI, or delete it first. On a card, the keys of removed entries stay in their slots.",
                    .listTokenKeys)
            )
        case .locked: (.transient, "Try again when no other program creates a key on the token.")
        case .lockUnavailable:
            (
                .unavailable,
                "Make yourself the owner of the lock directory (chown), run chmod 700 on it, then try again."
            )
        case .unwritable:
            (
                .unavailable,
                "Let this user write the file that the error names (chown, chmod; mount its file system for writing), then try again."
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
        case .unsupported, .publicHalfHidden:
            (.unsupported, "Use another token or another module.")
        case .noContextLogin:
            (.unsupported, "Use a key that does not require the PIN for each use.")
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
            "Change the owner of the file, or of the directory that the error names, to root or to you (chown) and make it writable only by the owner (chmod go-w)."
        case .wrongArchitecture: "Install the module for this machine's architecture."
        case .unloadable: "Install the missing libraries; `ldd` lists them."
        case .noFunctions:
            "Check the module's own settings: some need a configuration file or an environment variable before they are loaded."
        case .proxy:
            "Remove `module-path=` from the URI: Latchkey then uses each module that p11-kit configures."
        case .initializeFailed(.argumentsBad):
            "Check the module's requirements. One that needs parameters, such as NSS softoken, gets them from `x-init-reserved` "
                + "in its p11-kit configuration (pkcs11.conf(5))."
        case .initializeFailed:
            "Check that the module's requirements are met: pcscd, a TPM, its configuration, and for a token in files that you can "
                + "read and write them."
        case .hanging:
            "Check that the module's requirements (pcscd, a TPM) respond, and restart this program."
        case .notIsolated:
            "Install p11-kit and p11-kit-modules, or use the module without isolation."
        }
    }
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
        case .userAnotherAlreadyLoggedIn:
            (
                .transient, "another role is logged in to the token",
                "Try again when the other operations of this program on the token have ended."
            )
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
        case .generalError where error.function == "C_Login",
            .functionFailed where error.function == "C_Login":
            (
                .failed, "the token's module did not complete the login: \(error)",
                Recovery(
                    "Check the PIN and the attempts left: some modules answer so to a wrong PIN. If the PIN is right, report this "
                        + "error and the token.", .reportDiagnosis)
            )
        default: (.failed, "the token's module failed: \(error)", reportAdvice)
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
        func serial(_ text: String) -> String {
            text.isEmpty ? "without a serial number" : "with serial number \(text)"
        }
        let isSameName = wanted.label == found.label && wanted.serial == found.serial
        let (wantedModel, foundModel) =
            isSameName ? (" \(wanted.model)", " \(found.model)") : ("", "")
        return KeystoreError(
            code: .wrongDevice,
            reason:
                "the key is on the token\(wantedModel) ‘\(wanted.label)’ \(serial(wanted.serial)), and this "
                + "is\(foundModel) ‘\(found.label)’ \(serial(found.serial))",
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
