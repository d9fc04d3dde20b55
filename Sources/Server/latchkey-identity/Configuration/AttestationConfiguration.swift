import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty

/// The member `attestation`: whether clients can or must prove that keys are in hardware.
struct AttestationConfiguration: Sendable, Codable {
    /// The least that a new key must prove: `none`, `hardware`, `presence`, `finger` or `touch`. A
    /// client's `attestation_require` replaces it. With `none`, a received attestation is verified
    /// and stored.
    var require = "none"
    /// Directories with certificates of TPM manufacturers, in the subdirectories `roots` and
    /// `intermediates`.
    var tpmAnchors: [String] = []
    /// Such directories with certificates of token manufacturers.
    var pivAnchors: [String] = []
    /// Such directories with certificates of simulators.
    var simulatedAnchors: [String] = []
    /// Whether keys in simulators meet the requirement.
    var acceptSimulated = false
    /// The Names of the approval keys of presence brokers, 68 hexadecimal digits each; nil for those
    /// that an administrator enrolled, bound to a TPM.
    var approvalKeys: [String]?
    /// The number of days in which the certificate of an attestation key is valid.
    var certificateDays = 90
    /// The maximum number of seconds in which a fingerprint can be reused, for `finger`.
    var maximumReuseSeconds = 0
    /// `hash`: keep SHA-256 of the endorsement key with its attestation keys; `none`: keep nothing.
    var keepEndorsement = "hash"

    /// SHA-256 of the administrators' token for enrolling presence brokers, 64 hexadecimal digits.
    /// Empty turns the enrolment off.
    var brokerTokenDigest = ""

    private static let example =
        #""attestation": {"require": "hardware", "tpm_anchors": ["/etc/latchkey/anchors/tpm"]}"#

    /// The level of ``require``.
    var level: AttestationRequirement.Level {
        AttestationRequirement.Level(rawValue: require) ?? .none
    }

    var keepsEndorsement: Bool { keepEndorsement == "hash" }

    /// - Parameter clients: The clients, whose own requirements are checked too.
    func validate(_ clients: [ClientConfiguration], _ check: inout ConfigurationCheck) {
        let hasAnchors = !(tpmAnchors + pivAnchors + simulatedAnchors).isEmpty
        check.require(
            hasAnchors, "attestation.tpm_anchors",
            "there are no trust anchors",
            "Name at least one directory in tpm_anchors, piv_anchors or simulated_anchors: \(Self.example)"
        )
        check.require(
            !acceptSimulated || !simulatedAnchors.isEmpty, "attestation.accept_simulated",
            "there are no simulated_anchors",
            "Name the simulators' certificates, or set accept_simulated to false.")
        for (index, client) in clients.enumerated() {
            let own = client.attestationRequire
            check.require(
                !hasAnchors || isPossible(own ?? require),
                own == nil ? "attestation.require" : "clients.\(index).attestation_require",
                "no key can meet \(own ?? require) with these trust anchors",
                "finger requires tpm_anchors, touch requires piv_anchors. Simulators count only with accept_simulated."
            )
        }
        check.require(
            (1...398).contains(certificateDays), "attestation.certificate_days",
            "must be from 1 to 398")
        check.require(
            (0...300).contains(maximumReuseSeconds), "attestation.maximum_reuse_seconds",
            "must be from 0 to 300")
        check.require(
            brokerTokenDigest.isEmpty || Self.digest(brokerTokenDigest) != nil,
            "attestation.broker_token_digest", "is not 64 hexadecimal digits",
            "Print it with: printf %s TOKEN | sha256sum")
        check.require(
            brokerTokenDigest.isEmpty || approvalKeys == nil, "attestation.broker_token_digest",
            "the approval_keys are listed, so none can be enrolled",
            "Remove it, or remove approval_keys.")
        check.require(
            keepsEndorsement || approvalKeys != nil, "attestation.keep_endorsement",
            #""none", but enrolled approval keys are bound to endorsement keys"#,
            #"Set it to "hash", or list the Names of the approval_keys."#)
        for (index, name) in (approvalKeys ?? []).enumerated() {
            check.require(
                Self.name(name) != nil, "attestation.approval_keys.\(index)",
                "\(String(quoted: name, limit: 100)) is not a Name, 68 hexadecimal digits beginning with 000b",
                "Print the Name with: latchkey-presenced --print-name")
        }
    }

    /// Whether keys exist that can meet the requirement.
    private func isPossible(_ level: String) -> Bool {
        let hasSimulated = acceptSimulated && !simulatedAnchors.isEmpty
        return switch AttestationRequirement.Level(rawValue: level) ?? .none {
        case .none: true
        case .hardware, .presence: !tpmAnchors.isEmpty || !pivAnchors.isEmpty || hasSimulated
        case .finger: !tpmAnchors.isEmpty || hasSimulated
        case .touch: !pivAnchors.isEmpty || hasSimulated
        }
    }

    /// The 34 bytes of a Name in hexadecimal digits, or nil.
    static func name(_ text: String) -> Data? {
        guard text.utf8.count == 68, text.lowercased().hasPrefix("000b") else { return nil }
        return bytes(text)
    }

    /// Bytes as hexadecimal digits.
    static func text(_ bytes: Data) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// The 32 bytes of a digest in hexadecimal digits, or nil.
    static func digest(_ text: String) -> Data? { text.utf8.count == 64 ? bytes(text) : nil }

    private static func bytes(_ text: String) -> Data? {
        var bytes = Data()
        var rest = text.utf8[...]
        while !rest.isEmpty {
            let digits = rest.prefix(2)
            guard digits.allSatisfy({ $0 != UInt8(ascii: "+") && $0 != UInt8(ascii: "-") }),
                let byte = UInt8(String(decoding: digits, as: UTF8.self), radix: 16)
            else { return nil }
            bytes.append(byte)
            rest = rest.dropFirst(2)
        }
        return bytes
    }
}
