package import FoundationEssentials

/// The branches of a key's policy, as the key's owner declares them to a server: the ways to use
/// the key.
///
/// It proves nothing alone. A server recomputes the digest of the policy from it, and compares the
/// digest with that of the attested key.
public struct PresenceStatement: Hashable, Sendable {
    /// One way to satisfy the policy.
    package enum Branch: Hashable, Sendable {
        /// The owner of an approval key signs each use.
        case signed(Signed)
        /// The PIN of an NV index.
        case pin(UserPIN)
    }

    package struct Signed: Hashable, Sendable {
        /// The approval key, `TPMT_PUBLIC`.
        package let key: Data
        package let user: UInt32
        package let requirement: String
        /// The reuse time in seconds.
        package let reuse: UInt16
        /// The digest of the set of enrolled fingers.
        package let set: Data?
        package var counter: Counter?

        package init(
            key: Data, user: UInt32, requirement: String, reuse: UInt16, set: Data?,
            counter: Counter? = nil
        ) {
            self.key = key
            self.user = user
            self.requirement = requirement
            self.reuse = reuse
            self.set = set
            self.counter = counter
        }
    }

    /// A counter that the presence broker increases when the set of fingers changes.
    package struct Counter: Hashable, Sendable {
        /// `TPMS_NV_PUBLIC`.
        package let index: Data
        package let value: UInt64
        /// A statement of `TPM2_NV_Certify` that the counter still has this value: `TPMS_ATTEST`.
        package var certInfo: Data?
        /// The signature of ``certInfo``, as in the attestation object.
        package var signature: Data?

        package init(index: Data, value: UInt64) {
            self.index = index
            self.value = value
        }
    }

    package struct UserPIN: Hashable, Sendable {
        /// `TPMS_NV_PUBLIC`, after the write.
        package let index: Data
        /// The first branch of the index's policy, 32 bytes.
        package let reset: Data
        /// The reuse time in seconds.
        package let reuse: UInt16

        package init(index: Data, reset: Data, reuse: UInt16) {
            self.index = index
            self.reset = reset
            self.reuse = reuse
        }
    }

    /// The branches in the order of the policy.
    package var branches: [Branch]
    /// Whether the policy ends with `PolicyAuthValue`.
    package var endsWithAuthValue: Bool

    package init(branches: [Branch], endsWithAuthValue: Bool = false) {
        self.branches = branches
        self.endsWithAuthValue = endsWithAuthValue
    }
}

/// The JSON for servers. Bytes are in base64url.
extension PresenceStatement: Codable {
    private static let version = 1

    private enum CodingKeys: String, CodingKey {
        case version, branches
        case endsWithAuthValue = "auth_value"
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        guard try container.decode(Int.self, forKey: .version) == Self.version else {
            throw DecodingError.dataCorruptedError(
                forKey: .version, in: container, debugDescription: "unknown version")
        }
        branches = try container.decode([Branch].self, forKey: .branches)
        endsWithAuthValue =
            try container.decodeIfPresent(Bool.self, forKey: .endsWithAuthValue) ?? false
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(Self.version, forKey: .version)
        try container.encode(branches, forKey: .branches)
        if endsWithAuthValue { try container.encode(true, forKey: .endsWithAuthValue) }
    }
}

extension PresenceStatement.Branch: Codable {
    private enum CodingKeys: String, CodingKey {
        case type, key, user, requirement, reuse, set, counter, index, reset
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        switch try container.decode(String.self, forKey: .type) {
        case "signed":
            self = .signed(
                PresenceStatement.Signed(
                    key: try container.decode(Base64URLData.self, forKey: .key).bytes,
                    user: try container.decode(UInt32.self, forKey: .user),
                    requirement: try container.decode(String.self, forKey: .requirement),
                    reuse: try container.decode(UInt16.self, forKey: .reuse),
                    set: try container.decodeIfPresent(Base64URLData.self, forKey: .set)?.bytes,
                    counter: try container.decodeIfPresent(
                        PresenceStatement.Counter.self, forKey: .counter)))
        case "pin":
            self = .pin(
                PresenceStatement.UserPIN(
                    index: try container.decode(Base64URLData.self, forKey: .index).bytes,
                    reset: try container.decode(Base64URLData.self, forKey: .reset).bytes,
                    reuse: try container.decode(UInt16.self, forKey: .reuse)))
        default:
            throw DecodingError.dataCorruptedError(
                forKey: .type, in: container, debugDescription: "unknown type of branch")
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        switch self {
        case .signed(let signed):
            try container.encode("signed", forKey: .type)
            try container.encode(Base64URLData(signed.key), forKey: .key)
            try container.encode(signed.user, forKey: .user)
            try container.encode(signed.requirement, forKey: .requirement)
            try container.encode(signed.reuse, forKey: .reuse)
            try container.encodeIfPresent(signed.set.map(Base64URLData.init), forKey: .set)
            try container.encodeIfPresent(signed.counter, forKey: .counter)
        case .pin(let pin):
            try container.encode("pin", forKey: .type)
            try container.encode(Base64URLData(pin.index), forKey: .index)
            try container.encode(Base64URLData(pin.reset), forKey: .reset)
            try container.encode(pin.reuse, forKey: .reuse)
        }
    }
}

extension PresenceStatement.Counter: Codable {
    private enum CodingKeys: String, CodingKey {
        case index, value, certInfo
        case signature = "sig"
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        index = try container.decode(Base64URLData.self, forKey: .index).bytes
        value = try container.decode(UInt64.self, forKey: .value)
        certInfo = try container.decodeIfPresent(Base64URLData.self, forKey: .certInfo)?.bytes
        signature = try container.decodeIfPresent(Base64URLData.self, forKey: .signature)?.bytes
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(Base64URLData(index), forKey: .index)
        try container.encode(value, forKey: .value)
        try container.encodeIfPresent(certInfo.map(Base64URLData.init), forKey: .certInfo)
        try container.encodeIfPresent(signature.map(Base64URLData.init), forKey: .signature)
    }
}

/// Bytes that JSON contains in base64url.
private struct Base64URLData: Codable {
    let bytes: Data

    init(_ bytes: Data) { self.bytes = bytes }

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let bytes = Base64URL.decode(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(
                in: container, debugDescription: "it is not base64url")
        }
        self.bytes = bytes
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(Base64URL.encode(bytes))
    }
}
