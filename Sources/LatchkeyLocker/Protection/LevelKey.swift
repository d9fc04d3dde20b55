internal import Crypto
internal import FoundationEssentials
internal import Latchkey

/// The key of one level: 32 random bytes, made at the enrolment and never changed.
struct LevelKey: Sendable, Equatable {
    static let byteCount = 32
    /// How many bytes name a key in a ciphertext.
    static let idBytes = 8

    let secret: SecretBytes
    /// Names the key and tells nothing about it.
    let id: Data

    init(_ secret: SecretBytes) {
        self.secret = secret
        id = Self.derive(secret, salt: Data(), "latchkey/locker/key-id/v1", count: Self.idBytes)
            .withUnsafeBytes { Data($0) }
    }

    static func random() -> LevelKey { LevelKey(.random(count: byteCount)) }

    /// The key of one text.
    func textKey(nonce: Data) -> SymmetricKey {
        Self.derive(secret, salt: nonce, "latchkey/locker/text/v1", count: Self.byteCount)
    }

    /// The key under which another is wrapped.
    func wrappingKey(_ purpose: String) -> SymmetricKey {
        Self.derive(secret, salt: Data(), purpose, count: Self.byteCount)
    }

    private static func derive(_ secret: SecretBytes, salt: Data, _ info: String, count: Int) -> SymmetricKey {
        let root = secret.withUnsafeBytes { SymmetricKey(data: $0) }
        return HKDF<SHA256>.deriveKey(
            inputKeyMaterial: root, salt: salt, info: Data(info.utf8), outputByteCount: count)
    }
}
