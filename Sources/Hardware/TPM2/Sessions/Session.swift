package import Crypto
internal import CryptoExtras
internal import FoundationEssentials
internal import Glibc

/// An HMAC or policy session in the TPM, with SHA-256 (TPM 2.0 Part 1 section 17).
///
/// A session proves to the TPM that the caller knows an authValue without sending it, proves to the
/// caller that a response comes from the TPM, and encrypts the first parameter of commands and
/// responses. Open one with ``TPM/withSession(_:saltedTo:_:)``.
package final class Session: TPMEntity {
    /// The kind of a session, `TPM_SE` (Part 2 section 6.11).
    package enum Kind: UInt8, Sendable {
        /// `TPM_SE_HMAC`: proves knowledge of authValues.
        case hmac = 0x00
        /// `TPM_SE_POLICY`: satisfies the assertions of a policy.
        case policy = 0x01
        /// `TPM_SE_TRIAL`: computes the digest of a policy and authorizes nothing.
        case trial = 0x03
    }

    /// The part that survives suspension.
    struct State: Sendable {
        let handle: TPMHandle
        let kind: Kind
        /// The key of the session's HMACs: 32 bytes, or empty for an unsalted session.
        let key: SymmetricKey
        /// Whether `PolicyAuthValue` was executed, which makes the authValue a part of the HMAC
        /// key.
        var needsAuthValue = false
        /// The caller's latest nonce.
        var nonceCaller: [UInt8]
        /// The TPM's latest nonce.
        var nonceTPM: [UInt8]
    }

    var state: State

    package var handle: TPMHandle { state.handle }
    package var name: TPMName { TPMName(of: handle) }
    /// The TPM's latest nonce, to which an approval by signature is bound.
    package var nonceTPM: [UInt8] { state.nonceTPM }
    /// Whether the session is still open in the TPM. The TPM closes it with the first command that
    /// does not continue it.
    package internal(set) var isLoaded = true
    /// Whether the session is salted, which parameter encryption requires.
    var canEncrypt: Bool { state.key.bitCount > 0 }

    /// The number of bytes in a nonce of the caller or the TPM. The caller's first nonce sets it
    /// (TPM 2.0 Part 3 section 11.1).
    package static let nonceBytes = 32

    /// Restores a suspended session.
    init(_ state: State) { self.state = state }

    convenience init(
        handle: TPMHandle, kind: Kind, salt: SymmetricKey?, nonceCaller: [UInt8], nonceTPM: [UInt8]
    ) {
        let key = salt.map {
            KeyDerivation.kdfa(key: $0, label: "ATH", contextU: nonceTPM, contextV: nonceCaller)
        }
        self.init(
            State(
                handle: handle, kind: kind, key: key ?? AuthValue.empty.key,
                nonceCaller: nonceCaller,
                nonceTPM: nonceTPM))
    }

    /// Returns a nonce of 32 random bytes.
    static func randomNonce() -> [UInt8] {
        SymmetricKey(size: SymmetricKeySize(bitCount: 8 * nonceBytes)).withUnsafeBytes(Array.init)
    }
}

extension Session {
    /// The direction of a message. The nonce of its sender is the newer one.
    enum Direction {
        case command, response
    }

    /// Computes the HMAC of a command or response (TPM 2.0 Part 1 section 17.6.5).
    ///
    /// - Parameters:
    ///   - nonceTPM: The TPM's nonce: the old one for a command, the new one for a response.
    ///   - extraNonces: For the first session of a command, the nonces of the other sessions that
    ///     encrypt.
    func hmac(
        of parameterHash: [UInt8], _ direction: Direction, nonceTPM: [UInt8],
        extraNonces: [UInt8] = [],
        attributes: SessionAttributes, authValue: AuthValue
    ) -> [UInt8] {
        let usesAuthValue = state.kind == .hmac || state.needsAuthValue
        let macKey = usesAuthValue ? state.key + authValue.key : state.key
        if state.kind != .hmac && macKey.bitCount == 0 { return [] }
        var mac = HMAC<SHA256>(key: macKey)
        let nonces =
            direction == .command ? state.nonceCaller + nonceTPM : nonceTPM + state.nonceCaller
        mac.update(data: parameterHash + nonces + extraNonces + [attributes.rawValue])
        return Array(mac.finalize())
    }

    /// Encrypts the first parameter of a command, or decrypts that of a response: AES-128-CFB with
    /// a key for this message (TPM 2.0 Part 1 section 19.3).
    func crypt(_ bytes: [UInt8], _ direction: Direction, authValue: AuthValue) throws(TPMError)
        -> [UInt8]
    {
        let keyAndIV = KeyDerivation.kdfa(
            key: state.key + authValue.key, label: "CFB",
            contextU: direction == .command ? state.nonceCaller : state.nonceTPM,
            contextV: direction == .command ? state.nonceTPM : state.nonceCaller)
        let cipherKey = keyAndIV.slice(0..<16)
        let iv = keyAndIV.slice(16..<32).withUnsafeBytes { Array($0) }
        do {
            let iv = try AES._CFB.IV(ivBytes: iv)
            var result =
                switch direction {
                case .command: try AES._CFB.encrypt(bytes, using: cipherKey, iv: iv)
                case .response: try AES._CFB.decrypt(bytes, using: cipherKey, iv: iv)
                }
            defer { result.resetBytes(in: result.startIndex..<result.endIndex) }
            return Array(result)
        } catch {
            throw .unsupported("a parameter cannot be encrypted: \(error)")
        }
    }
}

/// A secret that only the caller and one TPM know, for one session (TPM 2.0 Part 1 annex C.6.1:
/// one-pass ECDH with an ephemeral key, KDFe with the label `SECRET`).
struct SessionSalt: Sendable {
    let secret: SymmetricKey
    /// The public point of the ephemeral key, which the TPM receives.
    let encrypted: [UInt8]

    /// - Parameter publicArea: The public area of the TPM's key. The caller must know that the key
    ///   is the TPM's: the owner of the private key can read everything that the session protects.
    /// - Throws: ``TPMError`` of kind `unsupported` unless it is a P-256 decryption key with
    ///   SHA-256.
    init(for publicArea: PublicArea) throws(TPMError) {
        guard let point = publicArea.p256Point, let x963 = point.p256Representation,
            publicArea.nameAlgorithm == .sha256,
            publicArea.attributes.contains([.decrypt, .restricted])
        else { throw .unsupported("a session can only be salted to a P-256 storage key") }
        let ephemeral = Self.ephemeralKey()
        let shared: SharedSecret
        do {
            let key = try P256.KeyAgreement.PublicKey(x963Representation: x963)
            shared = try ephemeral.sharedSecretFromKeyAgreement(with: key)
        } catch {
            throw .malformed("the storage key's point is not on P-256")
        }
        let own = Array(ephemeral.publicKey.rawRepresentation)
        let ownPoint = ECCPoint(x: Array(own.prefix(32)), y: Array(own.suffix(32)))
        secret = KeyDerivation.kdfe(
            sharedSecret: shared, label: "SECRET", partyU: ownPoint.x, partyV: Array(x963[1..<33]))
        encrypted = ownPoint.marshalled
    }

    /// Creates a private key from 32 random bytes, which are a valid key except for one in 2³²
    /// (FIPS 186-5 section A.2.2).
    ///
    /// `PrivateKey()` also signs and verifies with each key, and repeats this until the key has the
    /// compact form. On average that takes three times as long as the rest of the salt. The TPM
    /// detects a wrong key: it checks the session's HMACs.
    private static func ephemeralKey() -> P256.KeyAgreement.PrivateKey {
        while true {
            let number = SymmetricKey(size: .bits256)
            if let key = try? P256.KeyAgreement.PrivateKey(rawRepresentation: number) { return key }
        }
    }
}

/// A session that was moved out of the TPM, with the secrets of its user. It can be sent to another
/// thread.
package struct SuspendedSession: Sendable {
    let context: SavedContext
    let state: Session.State

    /// The handle.
    package var handle: TPMHandle { state.handle }
    /// The TPM's latest nonce, to which an approval by signature is bound.
    package var nonceTPM: [UInt8] { state.nonceTPM }
}

/// The two key derivation functions of a TPM, over SHA-256, for results of one block: 32 bytes (TPM
/// 2.0 Part 1 sections 11.4.10.2 and 11.4.10.3).
package enum KeyDerivation {
    /// The counter of the first block.
    private static let counter = UInt32(1).marshalled

    /// KDFa: SP800-108 in counter mode with HMAC.
    package static func kdfa(
        key: SymmetricKey, label: String, contextU: [UInt8], contextV: [UInt8]
    ) -> SymmetricKey {
        var mac = HMAC<SHA256>(key: key)
        mac.update(
            data: counter + Array(label.utf8) + [0] + contextU + contextV + UInt32(256).marshalled)
        return SymmetricKey(data: mac.finalize())
    }

    /// KDFe: SP800-56A over the x coordinate of an ECDH exchange.
    ///
    /// - Parameters:
    ///   - partyU: The x coordinate of the ephemeral key.
    ///   - partyV: The x coordinate of the TPM's key.
    package static func kdfe(
        sharedSecret: SharedSecret, label: String, partyU: [UInt8], partyV: [UInt8]
    ) -> SymmetricKey {
        var hash = SHA256()
        hash.update(data: counter)
        sharedSecret.withUnsafeBytes { hash.update(bufferPointer: $0) }
        hash.update(data: Array(label.utf8) + [0] + partyU + partyV)
        return SymmetricKey(data: hash.finalize())
    }
}

extension SymmetricKey {
    /// The number of bytes.
    var byteCount: Int { bitCount / 8 }

    /// Concatenates two keys in a buffer that is erased afterwards.
    static func + (left: SymmetricKey, right: SymmetricKey) -> SymmetricKey {
        withUnsafeTemporaryAllocation(
            byteCount: max(left.byteCount + right.byteCount, 1), alignment: 1
        ) { buffer in
            defer { wipeMemory(buffer) }
            left.withUnsafeBytes { buffer.copyMemory(from: $0) }
            right.withUnsafeBytes {
                UnsafeMutableRawBufferPointer(rebasing: buffer[left.byteCount...]).copyMemory(
                    from: $0)
            }
            return SymmetricKey(data: buffer[..<(left.byteCount + right.byteCount)])
        }
    }

    /// Returns a range of the key's bytes.
    func slice(_ range: Range<Int>) -> SymmetricKey {
        withUnsafeBytes { SymmetricKey(data: UnsafeRawBufferPointer(rebasing: $0[range])) }
    }
}

/// Erases memory. The optimizer does not remove this call.
func wipeMemory(_ buffer: UnsafeMutableRawBufferPointer) {
    if let base = buffer.baseAddress { explicit_bzero(base, buffer.count) }
}
