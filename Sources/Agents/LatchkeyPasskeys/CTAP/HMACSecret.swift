internal import Crypto
internal import CryptoExtras
internal import FoundationEssentials
internal import Latchkey

/// A request of the extension `hmac-secret`: one or two salts, encrypted between client and
/// authenticator (CTAP 2.1 sections "PIN/UV Auth Protocol One", "Two" and "HMAC Secret Extension").
struct HMACSecret: Sendable {
    /// The version of the encryption.
    enum Version: Int, Sendable {
        case one = 1
        case two = 2
    }

    /// The authenticator's key for the agreement. It is new each time the authenticator starts.
    struct Agreement: Sendable {
        private let key = P256.KeyAgreement.PrivateKey()

        /// The public key as a COSE key: ECDH-ES + HKDF-256 (-25).
        var publicKey: CBORValue {
            let point = Array(key.publicKey.x963Representation)
            return .map([
                1: .integer(2), 3: .integer(-25), -1: .integer(1), -2: .bytes(Array(point[1..<33])),
                -3: .bytes(Array(point[33..<65])),
            ])
        }

        fileprivate func secret(with clientKey: CTAPParameters) throws(CTAPStatus) -> SharedSecret {
            guard try clientKey.integer(1) == 2, try clientKey.integer(-1) == 1 else {
                throw .invalidParameter
            }
            let x = try clientKey.bytes(-2, count: 32...32)
            let y = try clientKey.bytes(-3, count: 32...32)
            guard let point = try? P256.KeyAgreement.PublicKey(x963Representation: [4] + x + y),
                let secret = try? key.sharedSecretFromKeyAgreement(with: point)
            else { throw .invalidParameter }
            return secret
        }
    }

    /// The salts, 32 bytes each.
    let salts: [Data]
    private let version: Version
    private let encryptionKey: SymmetricKey

    /// Decrypts the salts.
    ///
    /// The version follows from the lengths: Firefox encrypts with version 2 and does not state it.
    /// A client that states another one is refused.
    init(_ parameters: CTAPParameters, agreement: Agreement) throws(CTAPStatus) {
        let shared = try agreement.secret(with: parameters.map(1))
        let encrypted = try parameters.bytes(2, count: 32...80)
        let tag = try parameters.bytes(3, count: 16...32)
        let authenticationKey: SymmetricKey
        switch (tag.count, encrypted.count) {
        case (32, 48), (32, 80):
            version = .two
            authenticationKey = Self.derived("CTAP2 HMAC key", from: shared)
            encryptionKey = Self.derived("CTAP2 AES key", from: shared)
        case (16, 32), (16, 64):
            version = .one
            encryptionKey = shared.withUnsafeBytes {
                SymmetricKey(data: Array(SHA256.hash(data: $0)))
            }
            authenticationKey = encryptionKey
        default: throw .invalidLength
        }
        if let stated = try parameters.integer(4), stated != version.rawValue {
            throw .invalidParameter
        }
        let expected = Array(
            HMAC<SHA256>.authenticationCode(for: encrypted, using: authenticationKey))
        guard SecretBytes(expected.prefix(tag.count)) == SecretBytes(tag) else {
            throw .pinAuthInvalid
        }
        let salts = try Self.decrypt(encrypted, with: encryptionKey, version)
        self.salts = stride(from: 0, to: salts.count, by: 32).map { Data(salts[$0..<($0 + 32)]) }
    }

    /// Encrypts the outputs for the client: with version 2 differently each time.
    func encrypt(_ outputs: [SecretBytes]) throws(KeystoreError) -> [UInt8] {
        var plain: [UInt8] = []
        for output in outputs { output.withUnsafeBytes { plain += $0 } }
        defer {
            plain.withUnsafeMutableBytes { _ = $0.initializeMemory(as: UInt8.self, repeating: 0) }
        }
        let iv =
            version == .two
            ? SecretBytes.random(count: 16).withUnsafeBytes { Array($0) } : Self.zeros
        do {
            let bytes = try AES._CBC.encrypt(
                plain, using: encryptionKey, iv: AES._CBC.IV(ivBytes: iv), noPadding: true)
            return (version == .two ? iv : []) + bytes
        } catch {
            throw .invalidInput("the PRF's outputs cannot be encrypted")
        }
    }

    private static let zeros = [UInt8](repeating: 0, count: 16)

    private static func decrypt(
        _ bytes: [UInt8], with key: SymmetricKey, _ version: Version
    ) throws(CTAPStatus) -> [UInt8] {
        let (iv, body) =
            version == .two ? (Array(bytes.prefix(16)), bytes.dropFirst(16)) : (zeros, bytes[...])
        do {
            return Array(
                try AES._CBC.decrypt(
                    Array(body), using: key, iv: AES._CBC.IV(ivBytes: iv), noPadding: true))
        } catch {
            throw .invalidParameter
        }
    }

    private static func derived(_ info: String, from secret: SharedSecret) -> SymmetricKey {
        secret.hkdfDerivedSymmetricKey(
            using: SHA256.self, salt: [UInt8](repeating: 0, count: 32),
            sharedInfo: Array(info.utf8),
            outputByteCount: 32)
    }
}
