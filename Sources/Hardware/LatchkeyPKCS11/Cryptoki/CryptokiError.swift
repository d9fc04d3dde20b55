internal import Latchkey

/// An error of a module or a token.
///
/// Two errors are equal if their ``kind`` is equal.
package struct CryptokiError: Error, Sendable {
    /// The kind of error.
    package enum Kind: Hashable, Sendable {
        /// The module answered with a code other than `CKR_OK`.
        case returned(ReturnValue)
        /// The module's answer violates the specification.
        case malformed
        /// The module or token does not support the operation.
        case unsupported
        /// The module can't be used at all.
        case module(ModuleFailure)
        /// The call did not return within its deadline. From now on its module is ``unresponsive``.
        case timedOut
        /// An earlier call into the module never returned, so that it is not called again in this
        /// process.
        case unresponsive
        /// The task that waited was cancelled.
        case cancelled
        /// No token matches, or the token was removed.
        case tokenAbsent
        /// The only token that matches is not initialized.
        case uninitialized
        /// There is no reader, or polkit does not let this user see one.
        case noReaders
        /// More than one token matches.
        case tokenAmbiguous
        /// There is no such key, or one of its halves is missing.
        case keyAbsent
        /// The token does not show the public half of a key that it has just created.
        case publicHalfHidden
        /// Another key has the ID of the stored one.
        case keyReplaced
        /// More than one key matches.
        case keyAmbiguous
        /// The key is of another type than P-256.
        case otherKeyType
        /// The `CKA_ID` is in use.
        case occupied
        /// Another process has the lock for the token.
        case locked
        /// The file of the token's lock can't be used.
        case lockUnavailable
        /// The module's files of the token can't be written.
        case unwritable
        /// The module may show an old state of a token: see ``RecoveryPolicy``.
        case stale
        /// A login could not be ended on the card.
        case leftUnlocked
        /// The token's key does not have the requested protection, or its signature does not
        /// verify.
        case unsound
        /// The module has no login for a single use of a key (`CKU_CONTEXT_SPECIFIC`).
        case noContextLogin
        /// The user is not logged in: prompt for the PIN.
        case loginNeeded
        /// The user did not touch the token in time. Inferred: modules have no code for it.
        case touchTimedOut
        /// The URI is not valid, or contains a refused attribute.
        case invalidURI
    }

    package let kind: Kind
    /// The Cryptoki function, for example `C_Sign`, if one was being called.
    package let function: String?
    /// The cause, as a clause.
    package let reason: String
    /// The user's next step if it is not the usual one of ``kind``.
    let recovery: Recovery?
    /// The ID of a new key that could not be deleted after the error, in hexadecimal digits.
    private(set) var leftover: String?

    /// This error with a key that stayed on the token.
    func leaving(_ leftover: String) -> CryptokiError {
        var error = self
        error.leftover = leftover
        return error
    }

    init(_ kind: Kind, function: String? = nil, reason: String, recovery: Recovery? = nil) {
        self.kind = kind
        self.function = function
        self.reason = reason
        self.recovery = recovery
    }

    init(_ value: ReturnValue, from function: String) {
        self.init(.returned(value), function: function, reason: "the module answered \(value)")
    }

    /// The module's answer, if it gave one.
    package var returnValue: ReturnValue? {
        if case .returned(let value) = kind { value } else { nil }
    }
}

extension CryptokiError {
    /// The next step for a token of an unknown kind that is absent.
    static let connectAnyToken =
        "Connect the token, or start the program that provides it. For a smart card, check that pcscd runs."

    /// NSS softoken also has no label that can be set, and shows no token until its database has a
    /// password.
    static var filesOfNSS: CryptokiError {
        CryptokiError(
            .unsound,
            reason:
                "NSS softoken keeps keys in files, and does not report that a key was generated in it and stays there",
            recovery: "Use a hardware token or the TPM.")
    }

    /// The token accepted a proof twice and refuses the operation for lack of a login.
    static func loginWithoutEffect(_ error: CryptokiError) -> CryptokiError {
        CryptokiError(
            .unsupported, function: error.function,
            reason: "the token accepted the PIN and still answers that it needs a login (\(error))",
            recovery:
                "Use another key or module: this module does not use the key after a login, or requires another one for each use."
        )
    }
}

extension CryptokiError: Equatable {
    package static func == (left: CryptokiError, right: CryptokiError) -> Bool {
        left.kind == right.kind
    }
}

extension CryptokiError: CustomStringConvertible {
    /// For example `C_Login: the module answered CKR_PIN_INCORRECT (0xa0)`.
    package var description: String { function.map { "\($0): \(reason)" } ?? reason }
}

/// Why a module can't be used at all.
package enum ModuleFailure: Hashable, Sendable {
    /// There is no such file.
    case missing
    /// The file is not a PKCS#11 module: no shared object, or one without `C_GetFunctionList`.
    case notAModule
    /// The file is a shared object for another processor.
    case wrongArchitecture
    /// Other users can change the file, which would run with this program's rights and see PINs.
    case writableByOthers
    /// The file is p11-kit's proxy for all configured modules.
    case proxy
    /// The dynamic loader refuses the file, for example because a library is missing.
    case unloadable
    /// `C_GetFunctionList` failed.
    case noFunctions
    /// `C_Initialize` answered with this code.
    case initializeFailed(ReturnValue)
    /// Loading or `C_Initialize` did not return.
    case hanging
    /// The separate process for it could not be started.
    case notIsolated
}

/// The answer of a Cryptoki function: `CK_RV` (PKCS#11 2.40 section 5.1). Can hold values that the
/// standard does not name.
package struct ReturnValue: RawRepresentable, Hashable, Sendable {
    package let rawValue: UInt

    package init(rawValue: UInt) { self.rawValue = rawValue }
}

// The values that this package uses.
extension ReturnValue {
    static let ok = ReturnValue(rawValue: 0x000)
    static let cancel = ReturnValue(rawValue: 0x001)
    static let slotIDInvalid = ReturnValue(rawValue: 0x003)
    static let generalError = ReturnValue(rawValue: 0x005)
    static let functionFailed = ReturnValue(rawValue: 0x006)
    static let argumentsBad = ReturnValue(rawValue: 0x007)
    static let cantLock = ReturnValue(rawValue: 0x00a)
    static let attributeReadOnly = ReturnValue(rawValue: 0x010)
    static let attributeSensitive = ReturnValue(rawValue: 0x011)
    static let attributeTypeInvalid = ReturnValue(rawValue: 0x012)
    static let attributeValueInvalid = ReturnValue(rawValue: 0x013)
    static let actionProhibited = ReturnValue(rawValue: 0x01b)
    static let dataInvalid = ReturnValue(rawValue: 0x020)
    static let dataLenRange = ReturnValue(rawValue: 0x021)
    static let deviceError = ReturnValue(rawValue: 0x030)
    static let deviceMemory = ReturnValue(rawValue: 0x031)
    static let deviceRemoved = ReturnValue(rawValue: 0x032)
    static let functionCanceled = ReturnValue(rawValue: 0x050)
    static let functionNotSupported = ReturnValue(rawValue: 0x054)
    static let keyHandleInvalid = ReturnValue(rawValue: 0x060)
    static let keySizeRange = ReturnValue(rawValue: 0x062)
    static let keyTypeInconsistent = ReturnValue(rawValue: 0x063)
    static let keyFunctionNotPermitted = ReturnValue(rawValue: 0x068)
    static let mechanismInvalid = ReturnValue(rawValue: 0x070)
    static let mechanismParamInvalid = ReturnValue(rawValue: 0x071)
    static let objectHandleInvalid = ReturnValue(rawValue: 0x082)
    static let operationActive = ReturnValue(rawValue: 0x090)
    static let pinIncorrect = ReturnValue(rawValue: 0x0a0)
    static let pinInvalid = ReturnValue(rawValue: 0x0a1)
    static let pinLenRange = ReturnValue(rawValue: 0x0a2)
    static let pinExpired = ReturnValue(rawValue: 0x0a3)
    static let pinLocked = ReturnValue(rawValue: 0x0a4)
    static let sessionClosed = ReturnValue(rawValue: 0x0b0)
    static let sessionCount = ReturnValue(rawValue: 0x0b1)
    static let sessionHandleInvalid = ReturnValue(rawValue: 0x0b3)
    static let sessionReadOnly = ReturnValue(rawValue: 0x0b5)
    static let templateInconsistent = ReturnValue(rawValue: 0x0d1)
    static let tokenNotPresent = ReturnValue(rawValue: 0x0e0)
    static let tokenNotRecognized = ReturnValue(rawValue: 0x0e1)
    static let tokenWriteProtected = ReturnValue(rawValue: 0x0e2)
    static let userAlreadyLoggedIn = ReturnValue(rawValue: 0x100)
    static let userNotLoggedIn = ReturnValue(rawValue: 0x101)
    static let userPINNotInitialized = ReturnValue(rawValue: 0x102)
    static let userAnotherAlreadyLoggedIn = ReturnValue(rawValue: 0x104)
    static let userTypeInvalid = ReturnValue(rawValue: 0x103)
    static let domainParamsInvalid = ReturnValue(rawValue: 0x130)
    static let curveNotSupported = ReturnValue(rawValue: 0x140)
    static let bufferTooSmall = ReturnValue(rawValue: 0x150)
    static let cryptokiNotInitialized = ReturnValue(rawValue: 0x190)
    static let cryptokiAlreadyInitialized = ReturnValue(rawValue: 0x191)
    static let pinTooWeak = ReturnValue(rawValue: 0x1c3)
    static let functionRejected = ReturnValue(rawValue: 0x200)
}

extension ReturnValue: CustomStringConvertible {
    /// The standard's name and the number: `CKR_PIN_INCORRECT (0xa0)`.
    package var description: String {
        let number = "0x\(String(rawValue, radix: 16))"
        return Self.names[rawValue].map { "\($0) (\(number))" } ?? "an unknown value (\(number))"
    }

    /// The standard's names without `CKR_`, each after its number.
    private static let names: [UInt: String] = {
        let table = """
            000 OK, 001 CANCEL, 002 HOST_MEMORY, 003 SLOT_ID_INVALID, 005 GENERAL_ERROR, 006 FUNCTION_FAILED,
            007 ARGUMENTS_BAD, 008 NO_EVENT, 009 NEED_TO_CREATE_THREADS, 00a CANT_LOCK, 010 ATTRIBUTE_READ_ONLY,
            011 ATTRIBUTE_SENSITIVE, 012 ATTRIBUTE_TYPE_INVALID, 013 ATTRIBUTE_VALUE_INVALID, 01b ACTION_PROHIBITED,
            020 DATA_INVALID, 021 DATA_LEN_RANGE, 030 DEVICE_ERROR, 031 DEVICE_MEMORY, 032 DEVICE_REMOVED,
            040 ENCRYPTED_DATA_INVALID, 041 ENCRYPTED_DATA_LEN_RANGE, 050 FUNCTION_CANCELED, 051 FUNCTION_NOT_PARALLEL,
            054 FUNCTION_NOT_SUPPORTED, 060 KEY_HANDLE_INVALID, 062 KEY_SIZE_RANGE, 063 KEY_TYPE_INCONSISTENT,
            064 KEY_NOT_NEEDED, 065 KEY_CHANGED, 066 KEY_NEEDED, 067 KEY_INDIGESTIBLE, 068 KEY_FUNCTION_NOT_PERMITTED,
            069 KEY_NOT_WRAPPABLE, 06a KEY_UNEXTRACTABLE, 070 MECHANISM_INVALID, 071 MECHANISM_PARAM_INVALID,
            082 OBJECT_HANDLE_INVALID, 090 OPERATION_ACTIVE, 091 OPERATION_NOT_INITIALIZED, 0a0 PIN_INCORRECT,
            0a1 PIN_INVALID, 0a2 PIN_LEN_RANGE, 0a3 PIN_EXPIRED, 0a4 PIN_LOCKED, 0b0 SESSION_CLOSED, 0b1 SESSION_COUNT,
            0b3 SESSION_HANDLE_INVALID, 0b4 SESSION_PARALLEL_NOT_SUPPORTED, 0b5 SESSION_READ_ONLY, 0b6 SESSION_EXISTS,
            0b7 SESSION_READ_ONLY_EXISTS, 0b8 SESSION_READ_WRITE_SO_EXISTS, 0c0 SIGNATURE_INVALID,
            0c1 SIGNATURE_LEN_RANGE, 0d0 TEMPLATE_INCOMPLETE, 0d1 TEMPLATE_INCONSISTENT, 0e0 TOKEN_NOT_PRESENT,
            0e1 TOKEN_NOT_RECOGNIZED, 0e2 TOKEN_WRITE_PROTECTED, 0f0 UNWRAPPING_KEY_HANDLE_INVALID,
            0f1 UNWRAPPING_KEY_SIZE_RANGE, 0f2 UNWRAPPING_KEY_TYPE_INCONSISTENT, 100 USER_ALREADY_LOGGED_IN,
            101 USER_NOT_LOGGED_IN, 102 USER_PIN_NOT_INITIALIZED, 103 USER_TYPE_INVALID,
            104 USER_ANOTHER_ALREADY_LOGGED_IN, 105 USER_TOO_MANY_TYPES, 110 WRAPPED_KEY_INVALID,
            112 WRAPPED_KEY_LEN_RANGE, 113 WRAPPING_KEY_HANDLE_INVALID, 114 WRAPPING_KEY_SIZE_RANGE,
            115 WRAPPING_KEY_TYPE_INCONSISTENT, 120 RANDOM_SEED_NOT_SUPPORTED, 121 RANDOM_NO_RNG,
            130 DOMAIN_PARAMS_INVALID, 140 CURVE_NOT_SUPPORTED, 150 BUFFER_TOO_SMALL, 160 SAVED_STATE_INVALID,
            170 INFORMATION_SENSITIVE, 180 STATE_UNSAVEABLE, 190 CRYPTOKI_NOT_INITIALIZED,
            191 CRYPTOKI_ALREADY_INITIALIZED, 1a0 MUTEX_BAD, 1a1 MUTEX_NOT_LOCKED, 1b0 NEW_PIN_MODE, 1b1 NEXT_OTP,
            1c0 EXCEEDED_MAX_ITERATIONS, 1c1 FIPS_SELF_TEST_FAILED, 1c2 LIBRARY_LOAD_FAILED, 1c3 PIN_TOO_WEAK,
            1c4 PUBLIC_KEY_INVALID, 200 FUNCTION_REJECTED
            """
        let rows = table.split { $0 == "," || $0.isWhitespace }
        return Dictionary(
            uniqueKeysWithValues: stride(from: 0, to: rows.count - 1, by: 2).map { index in
                (UInt(rows[index], radix: 16) ?? .max, "CKR_\(rows[index + 1])")
            })
    }()
}
