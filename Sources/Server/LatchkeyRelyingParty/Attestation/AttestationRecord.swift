package import FoundationEssentials
internal import Latchkey

/// The proof of a key, as a server stores it with the key.
package struct AttestationRecord: Hashable, Sendable, Codable {
    /// The requirement that the proof met when it was verified.
    package let level: String
    /// `tpm` or `yubikey`.
    package let hardware: String
    /// Whether the hardware is a simulator.
    package let isSimulated: Bool
    /// The manufacturer, model and version of a TPM, as its certificate states them.
    let manufacturer: String?
    let model: String?
    let version: String?
    /// The serial number of a YubiKey.
    let serial: UInt64?
    /// The user verification that the hardware enforces; nil for an approval by an unknown key.
    package let presence: String?
    package let reuseSeconds: Int
    package let diesWithFingers: Bool
    /// The Names of all approval keys whose approval opens the key, in base64url.
    package let approvalKeys: [String]
    /// The serial number of the certificate of the attestation key or of slot F9, in base64url.
    package let certificateSerial: String
    /// Seconds since 1970.
    package let time: Double

    enum CodingKeys: String, CodingKey {
        case level, hardware, manufacturer, model, version, serial, presence, time
        case isSimulated = "simulated"
        case reuseSeconds = "reuse"
        case diesWithFingers = "dies_with_fingers"
        case approvalKeys = "approval_keys"
        case certificateSerial = "certificate_serial"
    }

    /// Records a verdict that met a requirement.
    package init(
        _ verdict: AttestationVerdict, for level: AttestationRequirement.Level, at time: Date
    ) {
        self.level = level.rawValue
        isSimulated = verdict.isSimulated
        var hardware = verdict.hardware
        while case .simulated(let inner) = hardware { hardware = inner }
        switch hardware {
        case .tpm(let manufacturer, let model, let version):
            (self.hardware, serial) = ("tpm", nil)
            (self.manufacturer, self.model, self.version) = (manufacturer, model, version)
        case .yubiKey(let firmware, let serial):
            (self.hardware, self.serial) = ("yubikey", serial)
            (manufacturer, model, version) = (nil, nil, firmware)
        case .simulated:
            (self.hardware, serial, manufacturer, model, version) = ("unknown", nil, nil, nil, nil)
        }
        presence = verdict.presence?.rawValue
        reuseSeconds = verdict.reuseSeconds
        diesWithFingers = verdict.diesWithFingers
        approvalKeys = verdict.approvalKeys.map { Base64URL.encode($0) }
        certificateSerial = Base64URL.encode(verdict.certificateSerial)
        self.time = time.timeIntervalSince1970
    }

    /// Reads the column `attestation`.
    ///
    /// - Returns: nil if it is NULL.
    package init?(_ row: SQLRow) throws {
        guard let text = try row.optionalText("attestation") else { return nil }
        self = try CanonicalJSON.decode(from: text)
    }

    /// The reason why the proof does not meet a requirement, or nil. It can be another requirement
    /// than that of the set-up.
    package func refusal(under requirement: AttestationRequirement) -> AttestationError? {
        requirement.refusal(
            isSimulated: isSimulated,
            presence: presence.flatMap(AssuranceLevel.EnforcedPresence.init),
            reuseSeconds: reuseSeconds)
    }

    /// The proof in words, for example `key in a TPM of IBM (swtpm, firmware 20191023), opens with
    /// a fingerprint only`.
    package var text: String {
        let device =
            hardware == "yubikey"
            ? "YubiKey (firmware \(version ?? "unknown")\(serial.map { ", serial number \($0)" } ?? ""))"
            : "TPM of \(maker) (\(model ?? "unknown model"), firmware \(Self.withoutPrefix(version ?? "unknown")))"
        return "key in a \(isSimulated ? "simulated " : "")\(device), \(opening)"
    }

    /// The ways to open the key, in words.
    private var opening: String {
        var words =
            switch presence.flatMap(AssuranceLevel.EnforcedPresence.init) {
            case .finger: "opens with a fingerprint only"
            case .fingerOrPIN: "opens with a fingerprint or a PIN"
            case .pin: "opens with a PIN, whose strength is not known"
            case .touch: "opens with a touch"
            case .touchAndPIN: "opens with a touch and a PIN"
            case .some(.none), .unknown: "opens without user verification"
            case nil: "opens with the approval of an unknown key"
            }
        if reuseSeconds > 0 { words += ", again within \(reuseSeconds) s" }
        if diesWithFingers { words += ", until the enrolled fingers change" }
        return words
    }

    /// The manufacturer: the letters of the vendor ID `id:` and 8 hexadecimal digits (TCG Vendor ID
    /// Registry), or the text itself.
    private var maker: String {
        guard let manufacturer else { return "an unknown manufacturer" }
        guard let number = UInt32(Self.withoutPrefix(manufacturer), radix: 16),
            manufacturer.utf8.count == 11
        else {
            return manufacturer
        }
        let bytes = (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - 8 * $0)) }
        let letters = Array(bytes.reversed().drop { $0 == 0 || $0 == 0x20 }.reversed())
        guard !letters.isEmpty, letters.allSatisfy({ (0x21...0x7e).contains($0) }) else {
            return manufacturer
        }
        return String(decoding: letters, as: UTF8.self)
    }

    private static func withoutPrefix(_ text: String) -> Substring {
        text.dropFirst(text.hasPrefix("id:") ? 3 : 0)
    }
}

extension AttestationError {
    /// The response to the client. Its error is `attestation_refused` if the cause is the device's
    /// policy or the operator's anchors: then send the code as the member `reason`, so that an
    /// operator can help.
    public var oauthError: OAuthError {
        switch code {
        case .unsupportedFormat, .untrustedEndorsement, .chainTooLong, .unsupportedCertificate,
            .wrongEndorsement, .certificateExpired,
            .untrustedAttestationKey, .wrongPolicy, .unknownApprovalKey, .insufficientPresence,
            .simulated:
            OAuthError(
                400, "attestation_refused",
                "the attestation does not meet the server's requirements",
                reason: code.rawValue)
        case .malformed, .wrongMagic, .wrongType, .wrongName, .wrongAttributes, .wrongChallenge,
            .unrestrictedAttestationKey, .invalidSignature, .activationFailed, .wrongCreation,
            .wrongKey, .wrongChain:
            .invalidGrant("the attestation is not accepted")
        }
    }
}

extension OAuthError {
    /// The client sent no attestation, and the server requires one.
    package static let attestationRequired = OAuthError(
        "attestation_required", "an attestation of the key is required")
}
