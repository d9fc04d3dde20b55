internal import Crypto
internal import FoundationEssentials

/// An opened class key. It encrypts the payloads of its class; the device class's also authenticates metadata.
struct ClassKey: Sendable {
    static let byteCount = 32
    private static let version: UInt8 = 1

    private let payloadKey: SymmetricKey
    private let metadataKey: SymmetricKey
    /// Whether this program has made the key, so that nobody else can know it.
    let isNew: Bool

    init(_ secret: SecretBytes, isNew: Bool = false) {
        self.isNew = isNew
        let root = secret.withUnsafeBytes { SymmetricKey(data: $0) }
        payloadKey = Self.derive(root, "latchkey/records/payload/v1")
        metadataKey = Self.derive(root, "latchkey/records/metadata/v1")
    }

    /// `version ‖ nonce (12) ‖ ciphertext ‖ tag (16)`: AES-256-GCM with `header` as associated data.
    func seal(_ payload: SecretBytes, header: Data) throws -> Data {
        let box = try payload.withUnsafeBytes { bytes in
            try AES.GCM.seal(bytes, using: payloadKey, authenticating: header)
        }
        return Data([Self.version]) + box.nonce + box.ciphertext + box.tag
    }

    /// - Throws: Whatever, when the bytes are not what ``seal(_:header:)`` made under this key and header.
    func open(_ sealed: Data, header: Data) throws -> SecretBytes {
        guard sealed.first == Self.version else { throw CryptoKitError.incorrectParameterSize }
        var plain = try AES.GCM.open(
            AES.GCM.SealedBox(combined: sealed.dropFirst()), using: payloadKey, authenticating: header)
        defer { plain.resetBytes(in: plain.startIndex..<plain.endIndex) }
        return SecretBytes(plain)
    }

    func authenticate(_ header: Data) -> Data {
        Data(HMAC<SHA256>.authenticationCode(for: header, using: metadataKey))
    }

    func isAuthentic(_ code: Data, for header: Data) -> Bool {
        HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: header, using: metadataKey)
    }

    private static func derive(_ root: SymmetricKey, _ purpose: String) -> SymmetricKey {
        HKDF<SHA256>.deriveKey(inputKeyMaterial: root, info: Data(purpose.utf8), outputByteCount: byteCount)
    }
}
