internal import Crypto

/// What a `PolicySigned` approval says and a `PolicySecret` proof is bound to (TPM 2.0 Part 3 sections 23.3 and 23.4).
public struct Approval: Hashable, Sendable {
    /// The session's nonce, so that the approval serves that session only; empty for any session.
    public var nonceTPM: [UInt8]
    /// Seconds since ``nonceTPM`` was made; 0 for no limit; negative to ask for a ticket as well.
    public var expiration: Int32
    /// The one command that is approved, or empty for any.
    public var commandHash: [UInt8]
    /// What the policy names besides the key.
    public var policyRef: [UInt8]

    /// An approval; by default of anything, at any time.
    public init(nonceTPM: [UInt8] = [], expiration: Int32 = 0, commandHash: [UInt8] = [], policyRef: [UInt8] = []) {
        self.nonceTPM = nonceTPM
        self.expiration = expiration
        self.commandHash = commandHash
        self.policyRef = policyRef
    }

    /// `aHash`, what the authority signs: SHA-256, 32 bytes.
    public var digest: [UInt8] {
        var message = TPMWriter()
        message.write(nonceTPM)
        message.write(expiration)
        message.write(commandHash)
        message.write(policyRef)
        return Array(SHA256.hash(data: message.bytes))
    }

    var parameters: TPMWriter {
        var parameters = TPMWriter()
        parameters.writeSized(nonceTPM)
        parameters.writeSized(commandHash)
        parameters.writeSized(policyRef)
        parameters.write(expiration)
        return parameters
    }
}
