/// A response code of the TPM or of the software in front of it: `TPM_RC` (TPM 2.0 Part 2 section
/// 6.6) with the layer that tpm2-tss adds (TSS 2.0 Overview and Common Structures section 3.12).
///
/// Bits of the code identify the handle, session or parameter that caused it. `~=` and ``base``
/// ignore these bits, so `case .authFail` matches 0x98e, 0x88e and 0x1ce.
public struct ResponseCode: TPMNumber, Hashable, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// The handle, session or parameter that caused a code.
    package enum Subject: Hashable, Sendable {
        /// The number of the handle, from 1. 0 if the TPM does not specify it.
        case handle(Int)
        /// The number of the session, from 1.
        case session(Int)
        /// The number of the parameter, from 1.
        case parameter(Int)
    }

    /// The software layer that returned the code: 0 the TPM, 10 the TCTI, 11 a resource manager
    /// with the TPM's encoding, 12 a resource manager with its own encoding.
    package var layer: UInt32 { rawValue >> 16 & 0xff }

    /// Whether the code has the TPM's encoding. It comes from the TPM or a resource manager.
    private var isFromTPM: Bool { layer == 0 || layer == 11 }

    /// Whether bits 8 to 11 identify the cause (`RC_FMT1`).
    private var isFormatOne: Bool { isFromTPM && rawValue & 0x080 != 0 }

    /// The code without its subject. Codes of other layers are unchanged.
    package var base: ResponseCode {
        guard isFromTPM else { return self }
        return ResponseCode(rawValue: isFormatOne ? rawValue & 0x0bf : rawValue & 0xfff)
    }

    /// The handle, session or parameter that caused a code of format one.
    package var subject: Subject? {
        guard isFormatOne else { return nil }
        let number = Int(rawValue >> 8 & 0xf)
        if rawValue & 0x040 != 0 { return .parameter(number) }
        return number & 8 == 0 ? .handle(number) : .session(number & 7)
    }

    /// Compares two codes without their subjects.
    public static func ~= (pattern: ResponseCode, value: ResponseCode) -> Bool {
        pattern.base == value.base
    }
}

extension ResponseCode {
    /// `TPM_RC_HANDLE`: the handle does not exist.
    package static let handle = ResponseCode(rawValue: 0x08b)
    /// `TPM_RC_AUTH_FAIL`: the authorization failed and was counted.
    package static let authFail = ResponseCode(rawValue: 0x08e)
    /// `TPM_RC_BAD_AUTH`: the authorization failed and is not counted.
    package static let badAuth = ResponseCode(rawValue: 0x0a2)
    /// `TPM_RC_POLICY_FAIL`: the policy is not satisfied.
    package static let policyFail = ResponseCode(rawValue: 0x09d)
    /// `TPM_RC_LOCKOUT`: the dictionary-attack protection accepts no authorization.
    package static let lockout = ResponseCode(rawValue: 0x921)
    /// `TPM_RC_RETRY`: the TPM is busy; send the command again.
    package static let retry = ResponseCode(rawValue: 0x922)

    // Named as in Part 2 section 6.6.3, without `TPM_RC_`.
    package static let success = ResponseCode(rawValue: 0x000)
    package static let initialize = ResponseCode(rawValue: 0x100)
    package static let failure = ResponseCode(rawValue: 0x101)
    package static let disabled = ResponseCode(rawValue: 0x120)
    package static let authType = ResponseCode(rawValue: 0x124)
    package static let policy = ResponseCode(rawValue: 0x126)
    package static let upgrade = ResponseCode(rawValue: 0x12d)
    package static let reboot = ResponseCode(rawValue: 0x130)
    package static let commandCode = ResponseCode(rawValue: 0x143)
    package static let nvLocked = ResponseCode(rawValue: 0x148)
    package static let nvAuthorization = ResponseCode(rawValue: 0x149)
    package static let nvUninitialized = ResponseCode(rawValue: 0x14a)
    package static let nvSpace = ResponseCode(rawValue: 0x14b)
    package static let nvDefined = ResponseCode(rawValue: 0x14c)
    package static let authUnavailable = ResponseCode(rawValue: 0x12f)
    package static let contextGap = ResponseCode(rawValue: 0x901)
    package static let objectMemory = ResponseCode(rawValue: 0x902)
    package static let sessionMemory = ResponseCode(rawValue: 0x903)
    package static let memory = ResponseCode(rawValue: 0x904)
    package static let sessionHandles = ResponseCode(rawValue: 0x905)
    package static let objectHandles = ResponseCode(rawValue: 0x906)
    package static let yielded = ResponseCode(rawValue: 0x908)
    package static let canceled = ResponseCode(rawValue: 0x909)
    package static let testing = ResponseCode(rawValue: 0x90a)
    package static let nvRate = ResponseCode(rawValue: 0x920)
    package static let nvUnavailable = ResponseCode(rawValue: 0x923)
    package static let asymmetric = ResponseCode(rawValue: 0x081)
    package static let attributes = ResponseCode(rawValue: 0x082)
    package static let hash = ResponseCode(rawValue: 0x083)
    package static let value = ResponseCode(rawValue: 0x084)
    package static let hierarchy = ResponseCode(rawValue: 0x085)
    package static let keySize = ResponseCode(rawValue: 0x087)
    package static let mode = ResponseCode(rawValue: 0x089)
    package static let type = ResponseCode(rawValue: 0x08a)
    package static let kdf = ResponseCode(rawValue: 0x08c)
    package static let scheme = ResponseCode(rawValue: 0x092)
    package static let size = ResponseCode(rawValue: 0x095)
    package static let symmetric = ResponseCode(rawValue: 0x096)
    package static let signature = ResponseCode(rawValue: 0x09b)
    package static let key = ResponseCode(rawValue: 0x09c)
    package static let integrity = ResponseCode(rawValue: 0x09f)
    package static let ticket = ResponseCode(rawValue: 0x0a0)
    package static let expired = ResponseCode(rawValue: 0x0a3)
    package static let binding = ResponseCode(rawValue: 0x0a5)
    package static let curve = ResponseCode(rawValue: 0x0a6)
    package static let eccPoint = ResponseCode(rawValue: 0x0a7)
}

extension ResponseCode: CustomStringConvertible {
    private static let texts: [UInt32: String] = [
        0x000: "success", 0x100: "the TPM has not been started",
        0x101: "the TPM is in failure mode",
        0x120: "the command is disabled", 0x124: "this kind of authorization is not accepted here",
        0x126: "a policy comparison failed", 0x12d: "the TPM's firmware is being updated",
        0x130: "the TPM must be restarted", 0x142: "the command has the wrong size",
        0x143: "the TPM does not have this command", 0x148: "the NV index is locked",
        0x149: "the NV index cannot be used with this authorization",
        0x14a: "the NV index was never written",
        0x14b: "the TPM's NV memory is full",
        0x14c: "the NV index or persistent handle is already in use",
        0x12f: "neither authValue nor policy can authorize this",
        0x901: "too many sessions were saved since the oldest one",
        0x902: "the TPM has no memory for another object",
        0x903: "the TPM has no memory for another session", 0x904: "the TPM is out of memory",
        0x905: "the TPM has no session handle left", 0x906: "the TPM has no object handle left",
        0x908: "the TPM yielded; send the command again", 0x909: "the command was cancelled",
        0x90a: "the TPM is testing itself", 0x910: "the object is not loaded",
        0x918: "the session is not loaded",
        0x920: "the TPM limits the rate of NV writes; try again later",
        0x921: "the TPM is locked out: its dictionary-attack protection accepts no authorization",
        0x922: "the TPM is busy; send the command again",
        0x923: "the TPM's NV memory cannot be written now",
        0x081: "the asymmetric algorithm is not supported or not valid here",
        0x082: "the attributes are not valid here",
        0x083: "the hash algorithm is not supported or not valid here",
        0x084: "a value is out of its range", 0x085: "the hierarchy is disabled or wrong",
        0x087: "the key size is not supported",
        0x089: "the mode is not supported or not valid here",
        0x08a: "the type is not valid here", 0x08b: "the handle does not exist",
        0x08c: "the key derivation function is not supported or not valid here",
        0x08e: "the authorization failed and was counted",
        0x08f: "a nonce has the wrong size or value",
        0x092: "the scheme is not supported or not valid here", 0x095: "a field has the wrong size",
        0x096: "the symmetric algorithm is not supported or not valid here",
        0x098: "a selector is unknown",
        0x09a: "a field ends too early", 0x09b: "the signature is not valid",
        0x09c: "the key is not valid here",
        0x09d: "the policy is not satisfied", 0x09f: "the integrity check failed",
        0x0a0: "the ticket is not valid",
        0x0a2: "the authorization failed and is not counted", 0x0a3: "the approval has expired",
        0x0a5: "the public and private parts do not match",
        0x0a6: "the TPM does not have this curve",
        0x0a7: "the point is not on the curve",
    ]

    /// A sentence, for example `session 1: the authorization failed and was counted (0x98e)`.
    public var description: String {
        let number = "0x" + String(rawValue, radix: 16)
        guard isFromTPM else { return "layer \(layer) of tpm2-tss answered \(number)" }
        let text = "\(Self.texts[base.rawValue] ?? "the TPM refused") (\(number))"
        switch subject {
        case .parameter(let index): return "parameter \(index): \(text)"
        case .session(let index): return "session \(index): \(text)"
        case .handle(let index) where index > 0: return "handle \(index): \(text)"
        case .handle, nil: return text
        }
    }
}
