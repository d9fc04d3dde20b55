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

        public static let tpm = Layer(rawValue: 0)
        public static let tcti = Layer(rawValue: 10)
        public static let resourceManagerTPM = Layer(rawValue: 11)
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
    public static let success = ResponseCode(rawValue: 0x000)
    // Format zero, errors.
    public static let initialize = ResponseCode(rawValue: 0x100)
    public static let failure = ResponseCode(rawValue: 0x101)
    public static let disabled = ResponseCode(rawValue: 0x120)
    public static let authType = ResponseCode(rawValue: 0x124)
    public static let policy = ResponseCode(rawValue: 0x126)
    public static let commandSize = ResponseCode(rawValue: 0x142)
    public static let commandCode = ResponseCode(rawValue: 0x143)
    public static let nvUninitialized = ResponseCode(rawValue: 0x14a)
    public static let nvSpace = ResponseCode(rawValue: 0x14b)
    public static let nvDefined = ResponseCode(rawValue: 0x14c)
    public static let authUnavailable = ResponseCode(rawValue: 0x12f)
    // Format zero, warnings.
    public static let contextGap = ResponseCode(rawValue: 0x901)
    public static let objectMemory = ResponseCode(rawValue: 0x902)
    public static let sessionMemory = ResponseCode(rawValue: 0x903)
    public static let memory = ResponseCode(rawValue: 0x904)
    public static let sessionHandles = ResponseCode(rawValue: 0x905)
    public static let objectHandles = ResponseCode(rawValue: 0x906)
    public static let yielded = ResponseCode(rawValue: 0x908)
    public static let canceled = ResponseCode(rawValue: 0x909)
    public static let testing = ResponseCode(rawValue: 0x90a)
    public static let referenceH0 = ResponseCode(rawValue: 0x910)
    public static let referenceS0 = ResponseCode(rawValue: 0x918)
    public static let nvRate = ResponseCode(rawValue: 0x920)
    public static let lockout = ResponseCode(rawValue: 0x921)
    public static let retry = ResponseCode(rawValue: 0x922)
    public static let nvUnavailable = ResponseCode(rawValue: 0x923)
    // Format one, without their subject.
    public static let attributes = ResponseCode(rawValue: 0x082)
    public static let hash = ResponseCode(rawValue: 0x083)
    public static let value = ResponseCode(rawValue: 0x084)
    public static let hierarchy = ResponseCode(rawValue: 0x085)
    public static let type = ResponseCode(rawValue: 0x08a)
    public static let handle = ResponseCode(rawValue: 0x08b)
    public static let authFail = ResponseCode(rawValue: 0x08e)
    public static let nonce = ResponseCode(rawValue: 0x08f)
    public static let scheme = ResponseCode(rawValue: 0x092)
    public static let size = ResponseCode(rawValue: 0x095)
    public static let symmetric = ResponseCode(rawValue: 0x096)
    public static let selector = ResponseCode(rawValue: 0x098)
    public static let insufficient = ResponseCode(rawValue: 0x09a)
    public static let signature = ResponseCode(rawValue: 0x09b)
    public static let key = ResponseCode(rawValue: 0x09c)
    public static let policyFail = ResponseCode(rawValue: 0x09d)
    public static let integrity = ResponseCode(rawValue: 0x09f)
    public static let ticket = ResponseCode(rawValue: 0x0a0)
    public static let badAuth = ResponseCode(rawValue: 0x0a2)
    public static let expired = ResponseCode(rawValue: 0x0a3)
    public static let binding = ResponseCode(rawValue: 0x0a5)
    public static let curve = ResponseCode(rawValue: 0x0a6)
    public static let eccPoint = ResponseCode(rawValue: 0x0a7)
}
