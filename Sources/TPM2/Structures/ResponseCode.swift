/// A response code of the TPM or of the software in front of it: `TPM_RC` (TPM 2.0 Part 2 section 6.6) with the layer that
/// tpm2-tss adds (TSS 2.0 Overview and Common Structures section 3.12).
///
/// Bits of the code identify the handle, session or parameter that caused it. `~=` and ``base`` ignore these bits, so `case
/// .authFail` matches 0x98e, 0x88e and 0x1ce.
public struct ResponseCode: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// The software layer that returned a code.
    package struct Layer: RawRepresentable, Hashable, Sendable {
        package let rawValue: UInt8

        package init(rawValue: UInt8) { self.rawValue = rawValue }

        /// The TPM.
        package static let tpm = Layer(rawValue: 0)
        /// The TCTI, which transports commands.
        package static let tcti = Layer(rawValue: 10)
        /// A resource manager that returns a code of the TPM's encoding.
        package static let resourceManagerTPM = Layer(rawValue: 11)
        /// A resource manager that returns a code with its own encoding.
        package static let resourceManager = Layer(rawValue: 12)
    }

    /// The handle, session or parameter that caused a code.
    public enum Subject: Hashable, Sendable {
        /// The number of the handle, from 1. 0 if the TPM does not specify it.
        case handle(Int)
        /// The number of the session, from 1.
        case session(Int)
        /// The number of the parameter, from 1.
        case parameter(Int)
    }

    /// The layer that returned the code.
    package var layer: Layer { Layer(rawValue: UInt8(truncatingIfNeeded: rawValue >> 16)) }

    /// Whether the code has the TPM's encoding. It comes from the TPM or a resource manager.
    package var isFromTPM: Bool { layer == .tpm || layer == .resourceManagerTPM }

    /// Whether bits 8 to 11 identify the cause (`RC_FMT1`).
    package var isFormatOne: Bool { isFromTPM && rawValue & 0x080 != 0 }

    /// Whether the same command may succeed later (`RC_WARN`).
    package var isWarning: Bool { isFromTPM && !isFormatOne && rawValue & 0x900 == 0x900 }

    /// The code without its subject. Codes of other layers are unchanged.
    public var base: ResponseCode {
        guard isFromTPM else { return self }
        return ResponseCode(rawValue: isFormatOne ? rawValue & 0x0bf : rawValue & 0xfff)
    }

    /// The handle, session or parameter that caused a code of format one.
    public var subject: Subject? {
        guard isFormatOne else { return nil }
        let number = Int(rawValue >> 8 & 0xf)
        if rawValue & 0x040 != 0 { return .parameter(number) }
        return number & 8 == 0 ? .handle(number) : .session(number & 7)
    }

    /// Compares two codes without their subjects.
    public static func ~= (pattern: ResponseCode, value: ResponseCode) -> Bool { pattern.base == value.base }
}

extension ResponseCode {
    /// `TPM_RC_SUCCESS`.
    public static let success = ResponseCode(rawValue: 0x000)
    // Format zero, errors.
    /// `TPM_RC_INITIALIZE`.
    public static let initialize = ResponseCode(rawValue: 0x100)
    /// `TPM_RC_FAILURE`.
    public static let failure = ResponseCode(rawValue: 0x101)
    /// `TPM_RC_DISABLED`.
    package static let disabled = ResponseCode(rawValue: 0x120)
    /// `TPM_RC_AUTH_TYPE`.
    package static let authType = ResponseCode(rawValue: 0x124)
    /// `TPM_RC_POLICY`.
    package static let policy = ResponseCode(rawValue: 0x126)
    /// `TPM_RC_COMMAND_SIZE`.
    package static let commandSize = ResponseCode(rawValue: 0x142)
    /// `TPM_RC_COMMAND_CODE`.
    package static let commandCode = ResponseCode(rawValue: 0x143)
    /// `TPM_RC_NV_UNINITIALIZED`.
    package static let nvUninitialized = ResponseCode(rawValue: 0x14a)
    /// `TPM_RC_NV_SPACE`.
    package static let nvSpace = ResponseCode(rawValue: 0x14b)
    /// `TPM_RC_NV_DEFINED`.
    package static let nvDefined = ResponseCode(rawValue: 0x14c)
    /// `TPM_RC_AUTH_UNAVAILABLE`.
    package static let authUnavailable = ResponseCode(rawValue: 0x12f)
    // Format zero, warnings.
    /// `TPM_RC_CONTEXT_GAP`.
    package static let contextGap = ResponseCode(rawValue: 0x901)
    /// `TPM_RC_OBJECT_MEMORY`.
    public static let objectMemory = ResponseCode(rawValue: 0x902)
    /// `TPM_RC_SESSION_MEMORY`.
    public static let sessionMemory = ResponseCode(rawValue: 0x903)
    /// `TPM_RC_MEMORY`.
    package static let memory = ResponseCode(rawValue: 0x904)
    /// `TPM_RC_SESSION_HANDLES`.
    package static let sessionHandles = ResponseCode(rawValue: 0x905)
    /// `TPM_RC_OBJECT_HANDLES`.
    package static let objectHandles = ResponseCode(rawValue: 0x906)
    /// `TPM_RC_YIELDED`.
    package static let yielded = ResponseCode(rawValue: 0x908)
    /// `TPM_RC_CANCELED`.
    package static let canceled = ResponseCode(rawValue: 0x909)
    /// `TPM_RC_TESTING`.
    public static let testing = ResponseCode(rawValue: 0x90a)
    /// `TPM_RC_REFERENCE_H0`.
    package static let referenceH0 = ResponseCode(rawValue: 0x910)
    /// `TPM_RC_REFERENCE_S0`.
    package static let referenceS0 = ResponseCode(rawValue: 0x918)
    /// `TPM_RC_NV_RATE`.
    package static let nvRate = ResponseCode(rawValue: 0x920)
    /// `TPM_RC_LOCKOUT`.
    public static let lockout = ResponseCode(rawValue: 0x921)
    /// `TPM_RC_RETRY`.
    public static let retry = ResponseCode(rawValue: 0x922)
    /// `TPM_RC_NV_UNAVAILABLE`.
    package static let nvUnavailable = ResponseCode(rawValue: 0x923)
    // Format one, without their subject.
    /// `TPM_RC_ATTRIBUTES`.
    package static let attributes = ResponseCode(rawValue: 0x082)
    /// `TPM_RC_HASH`.
    package static let hash = ResponseCode(rawValue: 0x083)
    /// `TPM_RC_VALUE`.
    public static let value = ResponseCode(rawValue: 0x084)
    /// `TPM_RC_HIERARCHY`.
    package static let hierarchy = ResponseCode(rawValue: 0x085)
    /// `TPM_RC_TYPE`.
    package static let type = ResponseCode(rawValue: 0x08a)
    /// `TPM_RC_HANDLE`.
    public static let handle = ResponseCode(rawValue: 0x08b)
    /// `TPM_RC_AUTH_FAIL`.
    public static let authFail = ResponseCode(rawValue: 0x08e)
    /// `TPM_RC_NONCE`.
    package static let nonce = ResponseCode(rawValue: 0x08f)
    /// `TPM_RC_SCHEME`.
    package static let scheme = ResponseCode(rawValue: 0x092)
    /// `TPM_RC_SIZE`.
    package static let size = ResponseCode(rawValue: 0x095)
    /// `TPM_RC_SYMMETRIC`.
    package static let symmetric = ResponseCode(rawValue: 0x096)
    /// `TPM_RC_SELECTOR`.
    package static let selector = ResponseCode(rawValue: 0x098)
    /// `TPM_RC_INSUFFICIENT`.
    package static let insufficient = ResponseCode(rawValue: 0x09a)
    /// `TPM_RC_SIGNATURE`.
    public static let signature = ResponseCode(rawValue: 0x09b)
    /// `TPM_RC_KEY`.
    package static let key = ResponseCode(rawValue: 0x09c)
    /// `TPM_RC_POLICY_FAIL`.
    public static let policyFail = ResponseCode(rawValue: 0x09d)
    /// `TPM_RC_INTEGRITY`.
    package static let integrity = ResponseCode(rawValue: 0x09f)
    /// `TPM_RC_TICKET`.
    package static let ticket = ResponseCode(rawValue: 0x0a0)
    /// `TPM_RC_BAD_AUTH`.
    public static let badAuth = ResponseCode(rawValue: 0x0a2)
    /// `TPM_RC_EXPIRED`.
    package static let expired = ResponseCode(rawValue: 0x0a3)
    /// `TPM_RC_BINDING`.
    package static let binding = ResponseCode(rawValue: 0x0a5)
    /// `TPM_RC_CURVE`.
    package static let curve = ResponseCode(rawValue: 0x0a6)
    /// `TPM_RC_ECC_POINT`.
    package static let eccPoint = ResponseCode(rawValue: 0x0a7)
}

extension ResponseCode: CustomStringConvertible {
    private static let texts: [ResponseCode: String] = [
        .success: "success", .initialize: "the TPM has not been started", .failure: "the TPM is in failure mode",
        .disabled: "the command is disabled", .authType: "this kind of authorization is not accepted here",
        .policy: "a policy comparison failed", .commandSize: "the command has the wrong size",
        .commandCode: "the TPM does not have this command", .nvUninitialized: "the NV index was never written",
        .nvSpace: "the TPM's NV memory is full",
        .nvDefined: "the NV index or persistent handle is already in use",
        .authUnavailable: "neither authValue nor policy can authorize this",
        .contextGap: "too many sessions were saved since the oldest one",
        .objectMemory: "the TPM has no memory for another object",
        .sessionMemory: "the TPM has no memory for another session", .memory: "the TPM is out of memory",
        .sessionHandles: "the TPM has no session handle left", .objectHandles: "the TPM has no object handle left",
        .yielded: "the TPM yielded; send the command again", .canceled: "the command was cancelled",
        .testing: "the TPM is testing itself", .referenceH0: "the object is not loaded",
        .referenceS0: "the session is not loaded", .nvRate: "the TPM limits the rate of NV writes; try again later",
        .lockout: "the TPM is locked out: its dictionary-attack protection accepts no authorization",
        .retry: "the TPM is busy; send the command again", .nvUnavailable: "the TPM's NV memory cannot be written now",
        .attributes: "the attributes are not valid here",
        .hash: "the hash algorithm is not supported or not valid here",
        .value: "a value is out of its range", .hierarchy: "the hierarchy is disabled or wrong",
        .type: "the type is not valid here", .handle: "the handle does not exist",
        .authFail: "the authorization failed and was counted", .nonce: "a nonce has the wrong size or value",
        .scheme: "the scheme is not supported or not valid here", .size: "a field has the wrong size",
        .symmetric: "the symmetric algorithm is not supported or not valid here", .selector: "a selector is unknown",
        .insufficient: "a field ends too early", .signature: "the signature is not valid",
        .key: "the key is not valid here", .policyFail: "the policy is not satisfied",
        .integrity: "the integrity check failed", .ticket: "the ticket is not valid",
        .badAuth: "the authorization failed and is not counted", .expired: "the approval has expired",
        .binding: "the public and private parts do not match", .curve: "the TPM does not have this curve",
        .eccPoint: "the point is not on the curve",
    ]

    /// A sentence, for example `session 1: the authorization failed and was counted (0x98e)`.
    public var description: String {
        let number = "0x" + String(rawValue, radix: 16)
        guard isFromTPM else { return "layer \(layer.rawValue) of tpm2-tss answered \(number)" }
        let text = "\(Self.texts[base] ?? "the TPM refused") (\(number))"
        switch subject {
        case .parameter(let index): return "parameter \(index): \(text)"
        case .session(let index): return "session \(index): \(text)"
        case .handle(let index) where index > 0: return "handle \(index): \(text)"
        case .handle, nil: return text
        }
    }
}
