import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty

/// The member `attestation`: whether clients can or must prove that keys are in hardware.
struct AttestationConfiguration: Sendable, Codable {
    /// The least that a new key must prove: `none`, `hardware`, `presence`, `finger` or `touch`. A
    /// client's `attestation_require` replaces it. With `none`, a received attestation is verified
    /// and stored.
    var require = "none"
    /// A directory with trust anchors in the subdirectories `tpm`, `piv`, `aik` and `simulated`.
    var anchors = ""
    /// Whether keys in simulators meet the requirement.
    var acceptSimulated = false
    /// SHA-256 of the administrators' token for enrolling presence brokers, 64 hexadecimal digits.
    /// Empty turns the enrolment off.
    var brokerTokenDigest = ""

    private static let example =
        #""attestation": {"require": "hardware", "anchors": "/etc/latchkey/anchors"}"#

    /// The level of ``require``.
    var level: AttestationRequirement.Level {
        AttestationRequirement.Level(rawValue: require) ?? .none
    }

    func validate(_ check: inout ConfigurationCheck) {
        check.require(
            !anchors.isEmpty, "attestation.anchors", "there are no trust anchors",
            "Name a directory: \(Self.example)")
        check.require(
            brokerTokenDigest.isEmpty || Self.digest(brokerTokenDigest) != nil,
            "attestation.broker_token_digest", "is not 64 hexadecimal digits",
            "Print it with: printf %s TOKEN | sha256sum")
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
