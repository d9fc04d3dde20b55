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
    /// The approval keys of presence brokers.
    var approvalKeys = ApprovalKeys.enrolled
    /// The number of days in which the certificate of an attestation key is valid.
    var certificateDays = 90
    /// The maximum number of seconds in which a fingerprint can be reused, for `finger`.
    var maximumReuseSeconds = 0
    /// `hash`: keep SHA-256 of the endorsement key with its attestation keys; `none`: keep nothing.
    var keepEndorsement = "hash"

    /// SHA-256 of the administrators' token for enrolling presence brokers, 64 hexadecimal digits.
    /// Empty turns the enrolment off.
    var brokerTokenDigest = ""

    enum ApprovalKeys: Sendable, Hashable {
        /// Those that an administrator enrolled, bound to a TPM.
        case enrolled
        /// Their Names, 68 hexadecimal digits each.
        case listed([String])
    }

    private static let example =
        #""attestation": {"require": "hardware", "tpm_anchors": ["/etc/latchkey/anchors/tpm"]}"#

    /// The level of ``require``.
    var level: AttestationRequirement.Level {
        AttestationRequirement.Level(rawValue: require) ?? .none
    }

    var keepsEndorsement: Bool { keepEndorsement == "hash" }

    /// - Parameter clients: The clients, whose own requirements are checked too.
    func validate(_ clients: [ClientConfiguration]) throws {
        try Self.validateLevel(require, "attestation.require")
        guard !(tpmAnchors + pivAnchors + simulatedAnchors).isEmpty else {
            throw ConfigurationError(
                "attestation: there are no trust anchors",
                "Name at least one directory in tpm_anchors, piv_anchors or simulated_anchors: \(Self.example)"
            )
        }
        guard !acceptSimulated || !simulatedAnchors.isEmpty else {
            throw ConfigurationError(
                "attestation.accept_simulated: there are no simulated_anchors",
                "Name the simulators' certificates, or set accept_simulated to false.")
        }
        for client in clients {
            if let own = client.attestationRequire {
                try Self.validateLevel(own, "client \(client.id): attestation_require")
            }
            try validateAnchors(client.attestationRequire ?? require)
        }
        guard (1...398).contains(certificateDays) else {
            throw ConfigurationError("attestation.certificate_days: must be from 1 to 398")
        }
        guard (0...300).contains(maximumReuseSeconds) else {
            throw ConfigurationError("attestation.maximum_reuse_seconds: must be from 0 to 300")
        }
        guard ["hash", "none"].contains(keepEndorsement) else {
            throw ConfigurationError(#"attestation.keep_endorsement: must be "hash" or "none""#)
        }
        guard brokerTokenDigest.isEmpty || Self.digest(brokerTokenDigest) != nil else {
            throw ConfigurationError(
                "attestation.broker_token_digest: is not 64 hexadecimal digits",
                "Print it with: printf %s TOKEN | sha256sum")
        }
        guard brokerTokenDigest.isEmpty || approvalKeys == .enrolled else {
            throw ConfigurationError(
                "attestation.broker_token_digest: the approval_keys are listed, so none can be enrolled",
                #"Remove it, or set approval_keys to "enrolled"."#)
        }
        guard keepsEndorsement || approvalKeys != .enrolled else {
            throw ConfigurationError(
                #"attestation.keep_endorsement: "none", but enrolled approval keys are bound to endorsement keys"#,
                #"Set it to "hash", or list the Names of the approval_keys."#)
        }
        if case .listed(let names) = approvalKeys {
            for name in names where Self.name(name) == nil {
                throw ConfigurationError(
                    "attestation.approval_keys: \(name) is not a Name, 68 hexadecimal digits beginning with 000b",
                    "Print the Name with: latchkey-presenced --print-name")
            }
        }
    }

    private static func validateLevel(_ level: String, _ member: String) throws {
        guard AttestationRequirement.Level(rawValue: level) != nil else {
            let levels = AttestationRequirement.Level.allCases.map(\.rawValue).joined(
                separator: ", ")
            throw ConfigurationError("\(member): \(level) is not one of \(levels)")
        }
    }

    /// Checks that keys exist that can meet the requirement.
    private func validateAnchors(_ level: String) throws {
        let hasSimulated = acceptSimulated && !simulatedAnchors.isEmpty
        let isPossible =
            switch AttestationRequirement.Level(rawValue: level) ?? .none {
            case .none: true
            case .hardware, .presence: !tpmAnchors.isEmpty || !pivAnchors.isEmpty || hasSimulated
            case .finger: !tpmAnchors.isEmpty || hasSimulated
            case .touch: !pivAnchors.isEmpty || hasSimulated
            }
        guard isPossible else {
            throw ConfigurationError(
                "attestation.require: no key can meet \(level) with these trust anchors",
                "finger requires tpm_anchors, touch requires piv_anchors. Simulators count only with accept_simulated."
            )
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

extension AttestationConfiguration.ApprovalKeys: Codable {
    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if let names = try? container.decode([String].self) {
            self = .listed(names)
        } else if try container.decode(String.self) == "enrolled" {
            self = .enrolled
        } else {
            throw DecodingError.dataCorruptedError(
                in: container,
                debugDescription: #"must be "enrolled" or a list of Names. "any" is not supported"#)
        }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .enrolled: try container.encode("enrolled")
        case .listed(let names): try container.encode(names)
        }
    }
}
