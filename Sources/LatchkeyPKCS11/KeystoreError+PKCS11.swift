internal import Latchkey

extension KeystoreError {
    /// What an error of the Cryptoki layer means for a person (`reference/pkcs11.md` section 7.4), where the place in
    /// which it came says nothing more.
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

/// An error in the core's vocabulary.
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
                    "Plug the token in. If it is, see that pcscd runs, that polkit lets you use it, and that no other "
                        + "program (scdaemon of GnuPG, for example) holds the card.")
            case .tokenAmbiguous:
                Meaning(.conflict, error.reason, "Name one of them by `serial=` and `module-path=` in the URI.")
            case .keyAmbiguous:
                Meaning(.conflict, error.reason, "Name one of them by `id=` in the URI.")
            case .keyAbsent:
                Meaning(.notFound, error.reason, "See with `latchkey token list` what the token holds.")
            case .occupied:
                Meaning(.conflict, error.reason, "Adopt the key that is there by its URI, or delete it first.")
            case .locked:
                Meaning(.transient, error.reason, "Try again when no other program makes a key on the token.")
            case .lockUnavailable:
                Meaning(
                    .unavailable, error.reason,
                    "Make the lock directory your own and writable only for you (chown, chmod 700), then try again.")
            case .leftUnlocked:
                Meaning(.unavailable, error.reason, "Take the token out and put it back, then try again.")
            case .timedOut:
                Meaning(.transient, error.reason, "Try again; take the token out and put it back if it stays.")
            case .wedged:
                Meaning(
                    .unavailable, error.reason,
                    "Take the token out, put it back, and start this program again; isolate the module if it happens "
                        + "more often.")
            case .cancelled:
                Meaning(.cancelled, error.reason, "Start again when you are ready.")
            case .touchTimedOut:
                Meaning(.cancelled, error.reason, "Try again, and touch the token when it blinks.")
            case .loginNeeded:
                Meaning(.refused, error.reason, "Try again with the token's PIN.")
            case .unsupported:
                Meaning(.unsupported, error.reason, "Use another token or another module for it.")
            case .unsound:
                Meaning(.refused, error.reason, "Don't use this token for keys that must not leave it.")
            case .invalidURI:
                Meaning(.invalidInput, error.reason, "Write it as RFC 7512 has it, for example `pkcs11:token=work`.")
            case .malformed, .returned, .module:
                Meaning(.failed, error.description, "Run `latchkey doctor` and report what it says.")
            }
    }

    private init(_ failure: ModuleFailure, _ error: CryptokiError) {
        let recovery =
            switch failure {
            case .missing: "Install the module, or correct `module-path=` in the URI."
            case .notAModule: "Name a PKCS#11 module, for example /usr/lib/x86_64-linux-gnu/libykcs11.so."
            case .writableByOthers:
                "Make the file root's or your own (chown), and take from others the right to write it (chmod go-w)."
            case .wrongArchitecture: "Install the module for this machine's architecture."
            case .unloadable: "Install what it needs; `ldd` shows what is missing."
            case .initializeFailed: "See that what the module needs (pcscd, a TPM, its configuration) is there."
            case .hanging: "See that what the module needs (pcscd, a TPM) answers, and start this program again."
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
                Meaning(.lockedOut, "the token takes no PIN after too many wrong ones", Self.unblocking(profile))
            case .pinExpired:
                Meaning(.refused, "the token wants its PIN changed first", "Change it with `latchkey token pin`.")
            case .pinTooWeak:
                Meaning(.invalidInput, "the token finds the new PIN too weak", "Choose a longer one.")
            case .userPINNotInitialized:
                Meaning(.passcodeNotSet, "the token has no user PIN yet", "Set one with `latchkey token pin`.")
            case .userNotLoggedIn:
                Meaning(.refused, "the token wants its PIN (again)", "Try again with the token's PIN.")
            case .functionCanceled, .cancel, .functionRejected:
                Meaning(.cancelled, "it was cancelled at the token", "Start again when you are ready.")
            case .deviceRemoved, .tokenNotPresent, .tokenNotRecognized, .slotIDInvalid:
                Meaning(.unavailable, "the token was removed", "Plug the token in and try again.")
            case .deviceError:
                Meaning(
                    .unavailable, "the token does not answer: \(value)",
                    "Take the token out and put it back; see that no other program holds it.")
            case .deviceMemory:
                Meaning(.unavailable, "the token is full", "Delete keys or certificates that nothing needs.")
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
                    .failed, "the token's module failed: \(error)", "Run `latchkey doctor` and report what it says.")
            }
    }

    private static func unblocking(_ profile: ModuleProfile?) -> String {
        switch profile?.unblocking {
        case .securityOfficer, nil: "Set a new PIN with the security officer's: `latchkey token pin --unblock`."
        case .prefixedSetPIN: "Set a new PIN with the PUK: `latchkey token pin --unblock`."
        case .program(let program): "Set a new PIN with the PUK: `\(program)`."
        }
    }
}
