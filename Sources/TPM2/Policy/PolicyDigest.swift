internal import Crypto

/// The digest of a policy, computed without a TPM (TPM 2.0 Part 3 section 23; Part 1 section 17.7).
///
/// Begin with ``init()`` and apply the assertions in the order in which the session will execute them.
public struct PolicyDigest: Hashable, Sendable {
    /// 32 bytes, SHA-256.
    public private(set) var bytes: [UInt8]

    /// The digest of a fresh session: 32 zero bytes.
    public init() {
        bytes = [UInt8](repeating: 0, count: SHA256.byteCount)
    }

    /// A digest that was computed elsewhere.
    ///
    /// - Returns: nil unless it has 32 bytes.
    public init?(bytes: [UInt8]) {
        guard bytes.count == SHA256.byteCount else { return nil }
        self.bytes = bytes
    }

    /// `TPM2_PolicyAuthValue`: the session's HMAC proves the authValue.
    public func authValue() -> PolicyDigest {
        extended(.policyAuthValue)
    }

    /// `TPM2_PolicyCommandCode`: only that command.
    public func commandCode(_ code: TPMCommandCode) -> PolicyDigest {
        extended(.policyCommandCode, code.rawValue.bigEndianBytes)
    }

    /// `TPM2_PolicySigned`: the key of that Name signed an approval.
    public func signed(by authority: TPMName, policyRef: [UInt8] = []) -> PolicyDigest {
        extended(.policySigned, authority.bytes).extended(with: policyRef)
    }

    /// `TPM2_PolicySecret`: the caller knows the authValue of the entity of that Name.
    public func secret(of entity: TPMName, policyRef: [UInt8] = []) -> PolicyDigest {
        extended(.policySecret, entity.bytes).extended(with: policyRef)
    }

    /// `TPM2_PolicyNV`: the index of that Name holds these very bytes from its beginning on.
    public func nvEquals(_ operand: [UInt8], in index: TPMName) -> PolicyDigest {
        var arguments = TPMWriter()
        arguments.write(operand)
        arguments.write(UInt16(0))
        arguments.write(TPM.equalOperation)
        return extended(.policyNV, Array(SHA256.hash(data: arguments.bytes)) + index.bytes)
    }

    /// `TPM2_PolicyOR`: one of 2 to 8 policies.
    ///
    /// - Returns: nil for fewer or more branches.
    public static func or(_ branches: [PolicyDigest]) -> PolicyDigest? {
        guard (2...8).contains(branches.count) else { return nil }
        return PolicyDigest().extended(.policyOR, branches.flatMap(\.bytes))
    }

    private func extended(_ code: TPMCommandCode, _ argument: [UInt8] = []) -> PolicyDigest {
        extended(with: code.rawValue.bigEndianBytes + argument)
    }

    private func extended(with argument: [UInt8]) -> PolicyDigest {
        var next = self
        next.bytes = Array(SHA256.hash(data: bytes + argument))
        return next
    }
}
