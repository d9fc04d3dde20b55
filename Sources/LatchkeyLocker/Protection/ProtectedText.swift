internal import Crypto
internal import FoundationEssentials
internal import Latchkey

/// Encrypted data as text: base64url of
/// `version (1) ‖ level (1) ‖ length of the enrolment's id (1) ‖ id ‖ key id (8) ‖ nonce (12) ‖ ciphertext ‖ tag (16)`.
/// All that stands before the ciphertext is authenticated with it.
///
/// Each text has a key of its own, HKDF-SHA256 of the level's key and the nonce, for AES-256-GCM: however many there are,
/// no two share a key and a nonce, and the level's own key is in the cipher's memory never.
struct ProtectedText: Sendable {
    static let version: UInt8 = 1
    /// The most bytes that a secret may have.
    static let maximumBytes = 1 << 20
    /// The most characters of base64url: what stands around the ciphertext takes less than 512 bytes.
    static let maximumCharacters = (maximumBytes + 512 + 2) / 3 * 4
    private static let nonceBytes = 12
    private static let tagBytes = 16

    let level: ProtectionLevel
    let enrolmentID: String
    private let header: Data
    private let keyID: Data
    private let nonce: Data
    private let ciphertext: Data
    private let tag: Data

    /// - Throws: ``ProtectionError/malformed``.
    init(_ text: String) throws(ProtectionError) {
        guard let bytes = Base64URL.decode(text) else { throw .malformed }
        var rest = bytes[...]
        func take(_ count: Int) throws(ProtectionError) -> Data {
            guard count >= 0, rest.count >= count else { throw .malformed }
            defer { rest = rest.dropFirst(count) }
            return Data(rest.prefix(count))
        }
        guard try take(1).first == Self.version, let level = try take(1).first.flatMap(ProtectionLevel.init(byte:)),
            let length = try take(1).first, let id = String(validating: try take(Int(length)), as: UTF8.self),
            EnrolmentID.isValid(id)
        else { throw .malformed }
        self.level = level
        enrolmentID = id
        keyID = try take(LevelKey.idBytes)
        nonce = try take(Self.nonceBytes)
        header = bytes.prefix(bytes.count - rest.count)
        ciphertext = try take(rest.count - Self.tagBytes)
        tag = Data(rest)
        guard ciphertext.count <= Self.maximumBytes else { throw .malformed }
    }

    /// The secret.
    ///
    /// - Throws: ``ProtectionError/integrity``, whatever it was that did not fit.
    func open(with key: LevelKey) throws(ProtectionError) -> String {
        do {
            guard constantTimeEqual(key.id, keyID) else { throw ProtectionError.integrity }
            let box = try AES.GCM.SealedBox(nonce: AES.GCM.Nonce(data: nonce), ciphertext: ciphertext, tag: tag)
            var plain = try AES.GCM.open(box, using: key.textKey(nonce: nonce), authenticating: header)
            defer { plain.resetBytes(in: plain.startIndex..<plain.endIndex) }
            guard let secret = String(validating: plain, as: UTF8.self) else { throw ProtectionError.integrity }
            return secret
        } catch {
            throw .integrity
        }
    }

    /// - Throws: ``ProtectionError/tooLong`` for a secret that is too long.
    static func seal(
        _ secret: String, at level: ProtectionLevel, enrolmentID: String, with key: LevelKey
    ) throws(ProtectionError) -> String {
        guard secret.utf8.count <= maximumBytes else { throw .tooLong }
        do {
            let nonce = AES.GCM.Nonce()
            let header =
                Data([version, level.byte, UInt8(enrolmentID.utf8.count)]) + Data(enrolmentID.utf8) + key.id + nonce
            let box = try AES.GCM.seal(
                Data(secret.utf8), using: key.textKey(nonce: Data(nonce)), nonce: nonce, authenticating: header)
            return Base64URL.encode(header + box.ciphertext + box.tag)
        } catch {
            throw .integrity
        }
    }
}
