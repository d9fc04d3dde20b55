/// The answer of a Cryptoki function: `CK_RV` (PKCS#11 2.40 section 5.1). Can hold values that the standard does not name.
package struct ReturnValue: RawRepresentable, Hashable, Sendable {
    package let rawValue: UInt

    package init(rawValue: UInt) { self.rawValue = rawValue }
}

// The values that this package uses.
extension ReturnValue {
    package static let ok = ReturnValue(rawValue: 0x000)
    package static let cancel = ReturnValue(rawValue: 0x001)
    package static let slotIDInvalid = ReturnValue(rawValue: 0x003)
    package static let generalError = ReturnValue(rawValue: 0x005)
    package static let functionFailed = ReturnValue(rawValue: 0x006)
    package static let argumentsBad = ReturnValue(rawValue: 0x007)
    package static let cantLock = ReturnValue(rawValue: 0x00a)
    package static let attributeSensitive = ReturnValue(rawValue: 0x011)
    package static let attributeTypeInvalid = ReturnValue(rawValue: 0x012)
    package static let attributeValueInvalid = ReturnValue(rawValue: 0x013)
    package static let actionProhibited = ReturnValue(rawValue: 0x01b)
    package static let dataInvalid = ReturnValue(rawValue: 0x020)
    package static let dataLenRange = ReturnValue(rawValue: 0x021)
    package static let deviceError = ReturnValue(rawValue: 0x030)
    package static let deviceMemory = ReturnValue(rawValue: 0x031)
    package static let deviceRemoved = ReturnValue(rawValue: 0x032)
    package static let functionCanceled = ReturnValue(rawValue: 0x050)
    package static let functionNotSupported = ReturnValue(rawValue: 0x054)
    package static let keyHandleInvalid = ReturnValue(rawValue: 0x060)
    package static let keySizeRange = ReturnValue(rawValue: 0x062)
    package static let keyTypeInconsistent = ReturnValue(rawValue: 0x063)
    package static let keyFunctionNotPermitted = ReturnValue(rawValue: 0x068)
    package static let mechanismInvalid = ReturnValue(rawValue: 0x070)
    package static let mechanismParamInvalid = ReturnValue(rawValue: 0x071)
    package static let objectHandleInvalid = ReturnValue(rawValue: 0x082)
    package static let operationActive = ReturnValue(rawValue: 0x090)
    package static let pinIncorrect = ReturnValue(rawValue: 0x0a0)
    package static let pinInvalid = ReturnValue(rawValue: 0x0a1)
    package static let pinLenRange = ReturnValue(rawValue: 0x0a2)
    package static let pinExpired = ReturnValue(rawValue: 0x0a3)
    package static let pinLocked = ReturnValue(rawValue: 0x0a4)
    package static let sessionClosed = ReturnValue(rawValue: 0x0b0)
    package static let sessionCount = ReturnValue(rawValue: 0x0b1)
    package static let sessionHandleInvalid = ReturnValue(rawValue: 0x0b3)
    package static let sessionReadOnly = ReturnValue(rawValue: 0x0b5)
    package static let templateInconsistent = ReturnValue(rawValue: 0x0d1)
    package static let tokenNotPresent = ReturnValue(rawValue: 0x0e0)
    package static let tokenNotRecognized = ReturnValue(rawValue: 0x0e1)
    package static let tokenWriteProtected = ReturnValue(rawValue: 0x0e2)
    package static let userNotLoggedIn = ReturnValue(rawValue: 0x101)
    package static let userPINNotInitialized = ReturnValue(rawValue: 0x102)
    package static let userTypeInvalid = ReturnValue(rawValue: 0x103)
    package static let domainParamsInvalid = ReturnValue(rawValue: 0x130)
    package static let curveNotSupported = ReturnValue(rawValue: 0x140)
    package static let bufferTooSmall = ReturnValue(rawValue: 0x150)
    package static let cryptokiNotInitialized = ReturnValue(rawValue: 0x190)
    package static let cryptokiAlreadyInitialized = ReturnValue(rawValue: 0x191)
    package static let pinTooWeak = ReturnValue(rawValue: 0x1c3)
    package static let functionRejected = ReturnValue(rawValue: 0x200)
}

extension ReturnValue: CustomStringConvertible {
    /// The standard's name and the number: `CKR_PIN_INCORRECT (0xa0)`.
    package var description: String {
        let number = "0x\(String(rawValue, radix: 16))"
        return Self.names[rawValue].map { "\($0) (\(number))" } ?? "an unknown value (\(number))"
    }

    private static let names: [UInt: String] = [
        0x000: "CKR_OK",
        0x001: "CKR_CANCEL",
        0x002: "CKR_HOST_MEMORY",
        0x003: "CKR_SLOT_ID_INVALID",
        0x005: "CKR_GENERAL_ERROR",
        0x006: "CKR_FUNCTION_FAILED",
        0x007: "CKR_ARGUMENTS_BAD",
        0x008: "CKR_NO_EVENT",
        0x009: "CKR_NEED_TO_CREATE_THREADS",
        0x00a: "CKR_CANT_LOCK",
        0x010: "CKR_ATTRIBUTE_READ_ONLY",
        0x011: "CKR_ATTRIBUTE_SENSITIVE",
        0x012: "CKR_ATTRIBUTE_TYPE_INVALID",
        0x013: "CKR_ATTRIBUTE_VALUE_INVALID",
        0x01b: "CKR_ACTION_PROHIBITED",
        0x020: "CKR_DATA_INVALID",
        0x021: "CKR_DATA_LEN_RANGE",
        0x030: "CKR_DEVICE_ERROR",
        0x031: "CKR_DEVICE_MEMORY",
        0x032: "CKR_DEVICE_REMOVED",
        0x040: "CKR_ENCRYPTED_DATA_INVALID",
        0x041: "CKR_ENCRYPTED_DATA_LEN_RANGE",
        0x050: "CKR_FUNCTION_CANCELED",
        0x051: "CKR_FUNCTION_NOT_PARALLEL",
        0x054: "CKR_FUNCTION_NOT_SUPPORTED",
        0x060: "CKR_KEY_HANDLE_INVALID",
        0x062: "CKR_KEY_SIZE_RANGE",
        0x063: "CKR_KEY_TYPE_INCONSISTENT",
        0x064: "CKR_KEY_NOT_NEEDED",
        0x065: "CKR_KEY_CHANGED",
        0x066: "CKR_KEY_NEEDED",
        0x067: "CKR_KEY_INDIGESTIBLE",
        0x068: "CKR_KEY_FUNCTION_NOT_PERMITTED",
        0x069: "CKR_KEY_NOT_WRAPPABLE",
        0x06a: "CKR_KEY_UNEXTRACTABLE",
        0x070: "CKR_MECHANISM_INVALID",
        0x071: "CKR_MECHANISM_PARAM_INVALID",
        0x082: "CKR_OBJECT_HANDLE_INVALID",
        0x090: "CKR_OPERATION_ACTIVE",
        0x091: "CKR_OPERATION_NOT_INITIALIZED",
        0x0a0: "CKR_PIN_INCORRECT",
        0x0a1: "CKR_PIN_INVALID",
        0x0a2: "CKR_PIN_LEN_RANGE",
        0x0a3: "CKR_PIN_EXPIRED",
        0x0a4: "CKR_PIN_LOCKED",
        0x0b0: "CKR_SESSION_CLOSED",
        0x0b1: "CKR_SESSION_COUNT",
        0x0b3: "CKR_SESSION_HANDLE_INVALID",
        0x0b4: "CKR_SESSION_PARALLEL_NOT_SUPPORTED",
        0x0b5: "CKR_SESSION_READ_ONLY",
        0x0b6: "CKR_SESSION_EXISTS",
        0x0b7: "CKR_SESSION_READ_ONLY_EXISTS",
        0x0b8: "CKR_SESSION_READ_WRITE_SO_EXISTS",
        0x0c0: "CKR_SIGNATURE_INVALID",
        0x0c1: "CKR_SIGNATURE_LEN_RANGE",
        0x0d0: "CKR_TEMPLATE_INCOMPLETE",
        0x0d1: "CKR_TEMPLATE_INCONSISTENT",
        0x0e0: "CKR_TOKEN_NOT_PRESENT",
        0x0e1: "CKR_TOKEN_NOT_RECOGNIZED",
        0x0e2: "CKR_TOKEN_WRITE_PROTECTED",
        0x0f0: "CKR_UNWRAPPING_KEY_HANDLE_INVALID",
        0x0f1: "CKR_UNWRAPPING_KEY_SIZE_RANGE",
        0x0f2: "CKR_UNWRAPPING_KEY_TYPE_INCONSISTENT",
        0x100: "CKR_USER_ALREADY_LOGGED_IN",
        0x101: "CKR_USER_NOT_LOGGED_IN",
        0x102: "CKR_USER_PIN_NOT_INITIALIZED",
        0x103: "CKR_USER_TYPE_INVALID",
        0x104: "CKR_USER_ANOTHER_ALREADY_LOGGED_IN",
        0x105: "CKR_USER_TOO_MANY_TYPES",
        0x110: "CKR_WRAPPED_KEY_INVALID",
        0x112: "CKR_WRAPPED_KEY_LEN_RANGE",
        0x113: "CKR_WRAPPING_KEY_HANDLE_INVALID",
        0x114: "CKR_WRAPPING_KEY_SIZE_RANGE",
        0x115: "CKR_WRAPPING_KEY_TYPE_INCONSISTENT",
        0x120: "CKR_RANDOM_SEED_NOT_SUPPORTED",
        0x121: "CKR_RANDOM_NO_RNG",
        0x130: "CKR_DOMAIN_PARAMS_INVALID",
        0x140: "CKR_CURVE_NOT_SUPPORTED",
        0x150: "CKR_BUFFER_TOO_SMALL",
        0x160: "CKR_SAVED_STATE_INVALID",
        0x170: "CKR_INFORMATION_SENSITIVE",
        0x180: "CKR_STATE_UNSAVEABLE",
        0x190: "CKR_CRYPTOKI_NOT_INITIALIZED",
        0x191: "CKR_CRYPTOKI_ALREADY_INITIALIZED",
        0x1a0: "CKR_MUTEX_BAD",
        0x1a1: "CKR_MUTEX_NOT_LOCKED",
        0x1b0: "CKR_NEW_PIN_MODE",
        0x1b1: "CKR_NEXT_OTP",
        0x1c0: "CKR_EXCEEDED_MAX_ITERATIONS",
        0x1c1: "CKR_FIPS_SELF_TEST_FAILED",
        0x1c2: "CKR_LIBRARY_LOAD_FAILED",
        0x1c3: "CKR_PIN_TOO_WEAK",
        0x1c4: "CKR_PUBLIC_KEY_INVALID",
        0x200: "CKR_FUNCTION_REJECTED",
    ]
}
