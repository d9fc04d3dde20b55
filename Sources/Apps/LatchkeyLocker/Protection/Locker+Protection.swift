internal import Crypto
internal import FoundationEssentials
public import Latchkey
internal import Synchronization

extension Locker {
    /// Encrypts a secret for a protection level of this enrolment. Does not use the hardware, the
    /// disk or the network.
    ///
    /// - Parameters:
    /// - secret: At most 1 MiB of UTF-8; may be empty.
    /// - protectionLevel: The level, which must be open now. The secret can be decrypted while the
    ///   level is open.
    /// - Returns: Text in base64url. The same secret gives another text each time.
    /// - Throws: ``ProtectionError``.
    public func encrypt(secret: String, protectionLevel: ProtectionLevel) throws(ProtectionError)
        -> String
    {
        let (enrolmentID, key) = try key(of: protectionLevel)
        return try ProtectedText.seal(
            secret, at: protectionLevel, enrolmentID: enrolmentID, with: key)
    }

    /// Decrypts a text from ``encrypt(secret:protectionLevel:)``.
    ///
    /// - Throws: ``ProtectionError``.
    public func decrypt(encryptedSecret: String) throws(ProtectionError) -> String {
        let text = try ProtectedText(encryptedSecret)
        guard state.withLock({ $0.enrolment?.id }) == text.enrolmentID else {
            throw .wrongEnrolment
        }
        return try text.open(with: key(of: text.level).key)
    }

    /// The level of an encrypted text, which its header names.
    ///
    /// - Throws: ``ProtectionError`` with code `malformed`.
    package static func protectionLevel(of encryptedSecret: String) throws(ProtectionError)
        -> ProtectionLevel
    {
        try ProtectedText(encryptedSecret).level
    }

    /// The id of the enrolment of an encrypted text, which its header names. See
    /// `StoredEnrolment.id`.
    ///
    /// - Throws: ``ProtectionError`` with code `malformed`.
    package static func enrolmentID(of encryptedSecret: String) throws(ProtectionError) -> String {
        try ProtectedText(encryptedSecret).enrolmentID
    }

    /// The maximum length of a secret in bytes of UTF-8: 1 MiB.
    package static var maximumSecretBytes: Int { ProtectedText.maximumBytes }

    /// The maximum length of a text from ``encrypt(secret:protectionLevel:)`` in characters.
    package static var maximumEncryptedCharacters: Int { ProtectedText.maximumCharacters }

    private func key(of level: ProtectionLevel) throws(ProtectionError) -> (
        enrolmentID: String, key: LevelKey
    ) {
        noteUse()
        let (phase, enrolmentID) = state.withLock { ($0.machine?.phase, $0.enrolment?.id) }
        guard let phase else { throw .keyUnavailable }
        guard phase.openLevels.contains(level), let enrolmentID else {
            throw .levelNotSatisfied(required: level, current: phase)
        }
        guard let key = keyring[level] else { throw .keyUnavailable }
        return (enrolmentID, key)
    }
}

/// Encrypted data as text: base64url of `version (1) ‖ level (1) ‖ length of the enrolment's id (1)
/// ‖ id ‖ key id (8) ‖ nonce (12) ‖ ciphertext ‖ tag (16)`. All fields before the ciphertext are
/// authenticated with it.
///
/// Each text has its own AES-256-GCM key, HKDF-SHA256 of the level's key and the nonce. So no two
/// texts share a key and a nonce, and the cipher never uses the level's own key.
struct ProtectedText: Sendable {
    static let version: UInt8 = 1
    /// The maximum length of a secret in bytes.
    static let maximumBytes = 1 << 20
    /// The maximum length in characters of base64url: the fields around the ciphertext have less
    /// than 512 bytes.
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

    /// - Throws: ``ProtectionError`` with code `malformed`.
    init(_ text: String) throws(ProtectionError) {
        guard let bytes = Base64URL.decode(text) else { throw .malformed }
        var rest = bytes[...]
        func take(_ count: Int) throws(ProtectionError) -> Data {
            guard count >= 0, rest.count >= count else { throw .malformed }
            defer { rest = rest.dropFirst(count) }
            return Data(rest.prefix(count))
        }
        guard try take(1).first == Self.version,
            let level = try take(1).first.flatMap(ProtectionLevel.init(byte:)),
            let length = try take(1).first,
            let id = String(validating: try take(Int(length)), as: UTF8.self),
            Enrolment.isValid(id: id)
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

    /// Decrypts the secret.
    ///
    /// - Throws: ``ProtectionError`` with code `integrity` for every kind of mismatch.
    func open(with key: LevelKey) throws(ProtectionError) -> String {
        do {
            guard constantTimeEqual(key.id, keyID) else { throw ProtectionError.integrity }
            let box = try AES.GCM.SealedBox(
                nonce: AES.GCM.Nonce(data: nonce), ciphertext: ciphertext, tag: tag)
            var plain = try AES.GCM.open(
                box, using: key.textKey(nonce: nonce), authenticating: header)
            defer { plain.resetBytes(in: plain.startIndex..<plain.endIndex) }
            guard let secret = String(validating: plain, as: UTF8.self) else {
                throw ProtectionError.integrity
            }
            return secret
        } catch {
            throw .integrity
        }
    }

    /// - Throws: ``ProtectionError`` with code `tooLong`.
    static func seal(
        _ secret: String, at level: ProtectionLevel, enrolmentID: String, with key: LevelKey
    ) throws(ProtectionError) -> String {
        guard secret.utf8.count <= maximumBytes else { throw .tooLong }
        do {
            let nonce = AES.GCM.Nonce()
            let header =
                Data([version, level.byte, UInt8(enrolmentID.utf8.count)]) + Data(enrolmentID.utf8)
                + key.id + nonce
            let box = try AES.GCM.seal(
                Data(secret.utf8), using: key.textKey(nonce: Data(nonce)), nonce: nonce,
                authenticating: header)
            return Base64URL.encode(header + box.ciphertext + box.tag)
        } catch {
            throw .integrity
        }
    }
}
