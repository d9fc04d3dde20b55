internal import Crypto
internal import FoundationEssentials

/// The opened key of a protection class. It encrypts the payloads of its class; the device class's
/// key also authenticates metadata.
struct RecordKey: Sendable {
    static let byteCount = 32
    private static let version: UInt8 = 1

    private let payloadKey: SymmetricKey
    private let metadataKey: SymmetricKey
    /// Whether this program created the key, so that no other program can know it.
    let isNew: Bool

    init(_ secret: SecretBytes, isNew: Bool = false) {
        self.isNew = isNew
        let root = secret.withUnsafeBytes { SymmetricKey(data: $0) }
        payloadKey = Self.derive(root, "latchkey/records/payload/v1")
        metadataKey = Self.derive(root, "latchkey/records/metadata/v1")
    }

    /// `version ‖ nonce (12) ‖ ciphertext ‖ tag (16)`: AES-256-GCM with `header` as associated
    /// data.
    func seal(_ payload: SecretBytes, header: Data) throws -> Data {
        let box = try payload.withUnsafeBytes { bytes in
            try AES.GCM.seal(bytes, using: payloadKey, authenticating: header)
        }
        return Data([Self.version]) + box.nonce + box.ciphertext + box.tag
    }

    /// - Throws: Any error, if ``seal(_:header:)`` did not create the bytes under this key and
    ///   header.
    func open(_ sealed: Data, header: Data) throws -> SecretBytes {
        guard sealed.first == Self.version else { throw CryptoKitError.incorrectParameterSize }
        var plain = try AES.GCM.open(
            AES.GCM.SealedBox(combined: sealed.dropFirst()), using: payloadKey,
            authenticating: header)
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
        HKDF<SHA256>.deriveKey(
            inputKeyMaterial: root, info: Data(purpose.utf8), outputByteCount: byteCount)
    }
}

/// Encrypts one secret that must be stored even if its protection class is locked by then. It can
/// seal at any time; only the open class can unseal.
///
/// The envelope has its own key, and the only other copy of that key is encrypted under the class's
/// key. So after a lock nothing in memory can decrypt a stored record.
package struct ClassEnvelope: Sendable {
    /// Version, nonce, key and tag: see ``RecordKey/seal(_:header:)``.
    private static let wrappedKeyBytes = 1 + 12 + RecordKey.byteCount + 16

    private let key: RecordKey
    private let wrappedKey: Data
    private let header: Data

    fileprivate init(_ opened: RecordKey, header: Data) throws {
        let secret = SecretBytes.random(count: RecordKey.byteCount)
        key = RecordKey(secret)
        wrappedKey = try opened.seal(secret, header: header)
        self.header = header
    }

    /// Encrypts the secret; the result is 110 bytes longer.
    package func seal(_ secret: SecretBytes) throws(CommonError) -> SecretBytes {
        do {
            return SecretBytes(try wrappedKey + key.seal(secret, header: header))
        } catch {
            throw CommonError(storing: error)
        }
    }

    fileprivate static func open(_ sealed: Data, _ opened: RecordKey, header: Data) throws
        -> SecretBytes
    {
        let key = RecordKey(try opened.open(sealed.prefix(wrappedKeyBytes), header: header))
        return try key.open(sealed.dropFirst(wrappedKeyBytes), header: header)
    }
}

extension RecordContainer {
    /// Creates an envelope for a secret of a record.
    ///
    /// - Throws: ``CommonError`` with code `wrongState` if the class is locked.
    package func envelope(
        of protection: ProtectionClass, for id: RecordID
    ) throws(CommonError) -> ClassEnvelope {
        guard let opened = session(protection)?.opened else { throw Self.locked(protection, id) }
        do {
            return try ClassEnvelope(opened, header: envelopeHeader(protection, id))
        } catch {
            throw CommonError(storing: error)
        }
    }

    /// Opens an envelope.
    ///
    /// - Throws: ``CommonError``; `wrongState` if the class is locked, `damaged` if the envelope
    ///   is not of this class and record.
    package func open(
        _ sealed: SecretBytes, of protection: ProtectionClass, for id: RecordID
    ) throws(CommonError) -> SecretBytes {
        guard let opened = session(protection)?.opened else { throw Self.locked(protection, id) }
        guard
            let secret = try? ClassEnvelope.open(
                sealed.withUnsafeBytes { Data($0) }, opened, header: envelopeHeader(protection, id))
        else { throw Self.edited(id) }
        return secret
    }

    /// Names have no control characters, so different names give different bytes.
    private func envelopeHeader(_ protection: ProtectionClass, _ id: RecordID) -> Data {
        Data("latchkey envelope v1\0\(name)\0\(protection.name)\0\(id)".utf8)
    }
}
