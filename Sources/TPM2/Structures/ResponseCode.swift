/// What a TPM, or the software in front of it, answered: `TPM_RC` (TPM 2.0 Part 2 section 6.6) with the layer that
/// tpm2-tss adds (TSS 2.0 Overview and Common Structures section 3.12).
///
/// A TPM says which handle, session or parameter a code is about by bits inside of the code. `~=` and ``base`` look
/// past them, so `case .authFail` matches 0x98e, 0x88e and 0x1ce alike.
public struct ResponseCode: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// Who raised a code.
    public struct Layer: RawRepresentable, Hashable, Sendable {
        public let rawValue: UInt8

        public init(rawValue: UInt8) { self.rawValue = rawValue }

        /// The TPM itself.
        public static let tpm = Layer(rawValue: 0)
        /// What carries commands to it.
        public static let tcti = Layer(rawValue: 10)
        /// A resource manager, in the words of a TPM.
        public static let resourceManagerTPM = Layer(rawValue: 11)
        /// A resource manager, in its own words.
        public static let resourceManager = Layer(rawValue: 12)
    }

    /// What a code is about.
    public enum Subject: Hashable, Sendable {
        /// The handle of that number, from 1. 0 when the TPM does not say which.
        case handle(Int)
        /// The session of that number, from 1.
        case session(Int)
        /// The parameter of that number, from 1.
        case parameter(Int)
    }

    /// Who raised it.
    public var layer: Layer { Layer(rawValue: UInt8(truncatingIfNeeded: rawValue >> 16)) }

    /// Whether the TPM itself raised the code, or a resource manager in its words.
    public var isFromTPM: Bool { layer == .tpm || layer == .resourceManagerTPM }

    /// Whether bits 8 to 11 say what the code is about (`RC_FMT1`).
    public var isFormatOne: Bool { isFromTPM && rawValue & 0x080 != 0 }

    /// Whether the command may work later as it is (`RC_WARN`).
    public var isWarning: Bool { isFromTPM && !isFormatOne && rawValue & 0x900 == 0x900 }

    /// The code without its subject. Codes of other layers are their own base.
    public var base: ResponseCode {
        guard isFromTPM else { return self }
        return ResponseCode(rawValue: isFormatOne ? rawValue & 0x0bf : rawValue & 0xfff)
    }

    /// What the code is about, for a code of format one.
    public var subject: Subject? {
        guard isFormatOne else { return nil }
        let number = Int(rawValue >> 8 & 0xf)
        if rawValue & 0x040 != 0 { return .parameter(number) }
        return number & 8 == 0 ? .handle(number) : .session(number & 7)
    }

    /// Whether both are the same code, whatever they are about.
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
    public static let disabled = ResponseCode(rawValue: 0x120)
    /// `TPM_RC_AUTH_TYPE`.
    public static let authType = ResponseCode(rawValue: 0x124)
    /// `TPM_RC_POLICY`.
    public static let policy = ResponseCode(rawValue: 0x126)
    /// `TPM_RC_COMMAND_SIZE`.
    public static let commandSize = ResponseCode(rawValue: 0x142)
    /// `TPM_RC_COMMAND_CODE`.
    public static let commandCode = ResponseCode(rawValue: 0x143)
    /// `TPM_RC_NV_UNINITIALIZED`.
    public static let nvUninitialized = ResponseCode(rawValue: 0x14a)
    /// `TPM_RC_NV_SPACE`.
    public static let nvSpace = ResponseCode(rawValue: 0x14b)
    /// `TPM_RC_NV_DEFINED`.
    public static let nvDefined = ResponseCode(rawValue: 0x14c)
    /// `TPM_RC_AUTH_UNAVAILABLE`.
    public static let authUnavailable = ResponseCode(rawValue: 0x12f)
    // Format zero, warnings.
    /// `TPM_RC_CONTEXT_GAP`.
    public static let contextGap = ResponseCode(rawValue: 0x901)
    /// `TPM_RC_OBJECT_MEMORY`.
    public static let objectMemory = ResponseCode(rawValue: 0x902)
    /// `TPM_RC_SESSION_MEMORY`.
    public static let sessionMemory = ResponseCode(rawValue: 0x903)
    /// `TPM_RC_MEMORY`.
    public static let memory = ResponseCode(rawValue: 0x904)
    /// `TPM_RC_SESSION_HANDLES`.
    public static let sessionHandles = ResponseCode(rawValue: 0x905)
    /// `TPM_RC_OBJECT_HANDLES`.
    public static let objectHandles = ResponseCode(rawValue: 0x906)
    /// `TPM_RC_YIELDED`.
    public static let yielded = ResponseCode(rawValue: 0x908)
    /// `TPM_RC_CANCELED`.
    public static let canceled = ResponseCode(rawValue: 0x909)
    /// `TPM_RC_TESTING`.
    public static let testing = ResponseCode(rawValue: 0x90a)
    /// `TPM_RC_REFERENCE_H0`.
    public static let referenceH0 = ResponseCode(rawValue: 0x910)
    /// `TPM_RC_REFERENCE_S0`.
    public static let referenceS0 = ResponseCode(rawValue: 0x918)
    /// `TPM_RC_NV_RATE`.
    public static let nvRate = ResponseCode(rawValue: 0x920)
    /// `TPM_RC_LOCKOUT`.
    public static let lockout = ResponseCode(rawValue: 0x921)
    /// `TPM_RC_RETRY`.
    public static let retry = ResponseCode(rawValue: 0x922)
    /// `TPM_RC_NV_UNAVAILABLE`.
    public static let nvUnavailable = ResponseCode(rawValue: 0x923)
    // Format one, without their subject.
    /// `TPM_RC_ATTRIBUTES`.
    public static let attributes = ResponseCode(rawValue: 0x082)
    /// `TPM_RC_HASH`.
    public static let hash = ResponseCode(rawValue: 0x083)
    /// `TPM_RC_VALUE`.
    public static let value = ResponseCode(rawValue: 0x084)
    /// `TPM_RC_HIERARCHY`.
    public static let hierarchy = ResponseCode(rawValue: 0x085)
    /// `TPM_RC_TYPE`.
    public static let type = ResponseCode(rawValue: 0x08a)
    /// `TPM_RC_HANDLE`.
    public static let handle = ResponseCode(rawValue: 0x08b)
    /// `TPM_RC_AUTH_FAIL`.
    public static let authFail = ResponseCode(rawValue: 0x08e)
    /// `TPM_RC_NONCE`.
    public static let nonce = ResponseCode(rawValue: 0x08f)
    /// `TPM_RC_SCHEME`.
    public static let scheme = ResponseCode(rawValue: 0x092)
    /// `TPM_RC_SIZE`.
    public static let size = ResponseCode(rawValue: 0x095)
    /// `TPM_RC_SYMMETRIC`.
    public static let symmetric = ResponseCode(rawValue: 0x096)
    /// `TPM_RC_SELECTOR`.
    public static let selector = ResponseCode(rawValue: 0x098)
    /// `TPM_RC_INSUFFICIENT`.
    public static let insufficient = ResponseCode(rawValue: 0x09a)
    /// `TPM_RC_SIGNATURE`.
    public static let signature = ResponseCode(rawValue: 0x09b)
    /// `TPM_RC_KEY`.
    public static let key = ResponseCode(rawValue: 0x09c)
    /// `TPM_RC_POLICY_FAIL`.
    public static let policyFail = ResponseCode(rawValue: 0x09d)
    /// `TPM_RC_INTEGRITY`.
    public static let integrity = ResponseCode(rawValue: 0x09f)
    /// `TPM_RC_TICKET`.
    public static let ticket = ResponseCode(rawValue: 0x0a0)
    /// `TPM_RC_BAD_AUTH`.
    public static let badAuth = ResponseCode(rawValue: 0x0a2)
    /// `TPM_RC_EXPIRED`.
    public static let expired = ResponseCode(rawValue: 0x0a3)
    /// `TPM_RC_BINDING`.
    public static let binding = ResponseCode(rawValue: 0x0a5)
    /// `TPM_RC_CURVE`.
    public static let curve = ResponseCode(rawValue: 0x0a6)
    /// `TPM_RC_ECC_POINT`.
    public static let eccPoint = ResponseCode(rawValue: 0x0a7)
}
