internal import Crypto

/// The digest of a policy, computed without a TPM (TPM 2.0 Part 3 section 23, Part 1 section 17.7).
///
/// Start with ``init()`` and apply the assertions in the order in which the session will execute
/// them.
package struct PolicyDigest: Hashable, Sendable {
    /// The SHA-256 digest, 32 bytes.
    package private(set) var bytes: [UInt8]

    /// Creates the digest of a new session: 32 zero bytes.
    package init() {
        bytes = [UInt8](repeating: 0, count: SHA256.byteCount)
    }

    /// Wraps a digest.
    ///
    /// - Returns: nil unless there are 32 bytes.
    package init?(bytes: [UInt8]) {
        guard bytes.count == SHA256.byteCount else { return nil }
        self.bytes = bytes
    }

    /// Appends `TPM2_PolicyAuthValue`: the session's HMAC proves the authValue.
    package func authValue() -> PolicyDigest {
        extended(.policyAuthValue)
    }

    /// Appends `TPM2_PolicyCommandCode`: the policy permits only this command.
    package func commandCode(_ code: TPMCommandCode) -> PolicyDigest {
        extended(.policyCommandCode, code.marshalled)
    }

    /// Appends `TPM2_PolicySigned`: the key with this Name signed an approval.
    package func signed(by authority: TPMName, policyRef: [UInt8] = []) -> PolicyDigest {
        extended(.policySigned, authority.bytes).extended(with: policyRef)
    }

    /// Appends `TPM2_PolicySecret`: the caller knows the authValue of the entity with this Name.
    package func secret(of entity: TPMName, policyRef: [UInt8] = []) -> PolicyDigest {
        extended(.policySecret, entity.bytes).extended(with: policyRef)
    }

    /// Appends `TPM2_PolicyNV`: the content of the index with this Name starts with these bytes.
    package func nvEquals(_ operand: [UInt8], in index: TPMName) -> PolicyDigest {
        let arguments = operand + UInt16(0).marshalled + PolicyNV.equal.marshalled
        return extended(.policyNV, Array(SHA256.hash(data: arguments)) + index.bytes)
    }

    /// Combines 2 to 8 policies with `TPM2_PolicyOR`: one of them is satisfied.
    ///
    /// - Returns: nil for fewer or more branches.
    package static func or(_ branches: [PolicyDigest]) -> PolicyDigest? {
        guard (2...8).contains(branches.count) else { return nil }
        return PolicyDigest().extended(.policyOR, branches.flatMap(\.bytes))
    }

    private func extended(_ code: TPMCommandCode, _ argument: [UInt8] = []) -> PolicyDigest {
        extended(with: code.marshalled + argument)
    }

    private func extended(with argument: [UInt8]) -> PolicyDigest {
        var next = self
        next.bytes = Array(SHA256.hash(data: bytes + argument))
        return next
    }
}

/// The limits of a `PolicySigned` approval or a `PolicySecret` proof (TPM 2.0 Part 3 sections 23.3
/// and 23.4).
package struct Approval: Hashable, Sendable {
    /// The nonce of the only session that may use the approval, or empty for any session.
    package var nonceTPM: [UInt8]
    /// The time limit in seconds since ``nonceTPM`` was created. 0 for no limit. Negative to
    /// request a ticket too.
    package var expiration: Int32
    /// The cpHash of the only approved command, or empty for any command.
    package var commandHash: [UInt8]
    /// The reference that the policy names in addition to the key.
    package var policyRef: [UInt8]

    /// Creates an approval. By default it has no limits.
    package init(
        nonceTPM: [UInt8] = [], expiration: Int32 = 0, commandHash: [UInt8] = [],
        policyRef: [UInt8] = []
    ) {
        self.nonceTPM = nonceTPM
        self.expiration = expiration
        self.commandHash = commandHash
        self.policyRef = policyRef
    }

    /// `aHash`, the digest that the authority signs: SHA-256, 32 bytes.
    package var digest: [UInt8] { Array(SHA256.hash(data: message)) }

    /// The bytes of which ``digest`` is the digest.
    package var message: [UInt8] { nonceTPM + expiration.marshalled + commandHash + policyRef }
}

extension Approval: TPMMarshallable {
    package func marshal(into writer: inout TPMWriter) {
        writer.write(TPM2B(nonceTPM), TPM2B(commandHash), TPM2B(policyRef), expiration)
    }
}

/// The ticket that `PolicySigned` and `PolicySecret` return, which replaces the approval until it
/// expires. Empty unless the expiration was negative.
package struct ApprovalTicket: Hashable, Sendable {
    /// The time at which the ticket expires, in the TPM's encoding.
    package let timeout: [UInt8]
    /// The TPM's proof that it checked the approval.
    package let ticket: Ticket
}

extension ApprovalTicket: TPMUnmarshallable {
    package init(from reader: inout TPMReader) throws(TPMError) {
        timeout = try reader.readSized(maximum: 64)
        ticket = try reader.read()
    }
}
