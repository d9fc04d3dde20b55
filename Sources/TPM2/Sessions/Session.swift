package import Crypto

/// An HMAC or policy session in the TPM, with SHA-256 (TPM 2.0 Part 1 section 17).
///
/// It proves to the TPM that the caller knows an authValue without showing it, proves to the caller that a response
/// comes from the TPM, and encrypts the first parameter of commands and responses. Get one from
/// ``TPM/withSession(_:saltedTo:_:)``.
public final class Session: TPMEntity {
    /// What a session is for, `TPM_SE` (Part 2 section 6.11).
    public enum Kind: UInt8, Sendable {
        /// `TPM_SE_HMAC`: proves secrets.
        case hmac = 0x00
        /// `TPM_SE_POLICY`: collects what a policy wants.
        case policy = 0x01
        /// A policy session that computes a digest and authorizes nothing.
        case trial = 0x03
    }

    /// Its handle.
    public let handle: TPMHandle
    public var name: TPMName { TPMName(of: handle) }
    /// What it is for.
    public let kind: Kind
    /// Whether the TPM still has the session: it goes with a command that does not continue it.
    public internal(set) var isLoaded = true
    /// The TPM's latest nonce: what an approval by signature is bound to.
    public private(set) var nonceTPM: [UInt8]
    /// Whether parameters can be encrypted: the session has a secret.
    public var canEncrypt: Bool { key.bitCount > 0 }

    /// The key of the session's HMACs: 32 bytes, or none when it was not salted.
    package let key: SymmetricKey
    /// Whether `PolicyAuthValue` was executed, so that the authValue is part of the HMAC key.
    var needsAuthValue = false
    /// The caller's latest nonce.
    private(set) var nonceCaller: [UInt8]

    /// The number of bytes in a nonce, the caller's and the TPM's: the caller's first one sets it (TPM 2.0 Part 3
    /// section 11.1).
    public static let nonceBytes = 32

    /// A session that was swapped out.
    init(
        handle: TPMHandle, kind: Kind, key: SymmetricKey, needsAuthValue: Bool, nonceCaller: [UInt8], nonceTPM: [UInt8]
    ) {
        self.handle = handle
        self.kind = kind
        self.key = key
        self.needsAuthValue = needsAuthValue
        self.nonceCaller = nonceCaller
        self.nonceTPM = nonceTPM
    }

    init(handle: TPMHandle, kind: Kind, salt: SymmetricKey?, nonceCaller: [UInt8], nonceTPM: [UInt8]) {
        self.handle = handle
        self.kind = kind
        self.nonceCaller = nonceCaller
        self.nonceTPM = nonceTPM
        key =
            salt.map {
                KeyDerivation.kdfa(key: $0, label: "ATH", contextU: nonceTPM, contextV: nonceCaller, count: 32)
            } ?? AuthValue.empty.key
    }

    /// A nonce of 32 random bytes.
    static func randomNonce() -> [UInt8] {
        SymmetricKey(size: SymmetricKeySize(bitCount: 8 * nonceBytes)).withUnsafeBytes(Array.init)
    }

    func rollNonceCaller() {
        nonceCaller = Self.randomNonce()
    }

    func accept(nonceTPM: [UInt8]) {
        self.nonceTPM = nonceTPM
    }
}
