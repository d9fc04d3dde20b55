internal import Synchronization

extension Locker {
    /// Encrypts a secret so that it can be decrypted at that level, on this device, while it is enrolled. In memory
    /// alone: neither hardware nor disk nor network is touched.
    ///
    /// - Parameters:
    ///   - secret: At most 1 MiB of UTF-8; may be empty.
    ///   - protectionLevel: The statuses in which it can be read again; it must be open now.
    /// - Returns: Text in base64url. The same secret gives another text each time.
    /// - Throws: ``ProtectionError``.
    public func encrypt(secret: String, protectionLevel: ProtectionLevel) throws(ProtectionError) -> String {
        let (enrolmentID, key) = try key(of: protectionLevel)
        return try ProtectedText.seal(secret, at: protectionLevel, enrolmentID: enrolmentID, with: key)
    }

    /// Decrypts what ``encrypt(secret:protectionLevel:)`` made.
    ///
    /// - Throws: ``ProtectionError``.
    public func decrypt(encryptedSecret: String) throws(ProtectionError) -> String {
        let text = try ProtectedText(encryptedSecret)
        guard state.withLock({ $0.enrolment?.id }) == text.enrolmentID else { throw .wrongEnrolment }
        return try text.open(with: key(of: text.level).key)
    }

    /// The level under which a text was encrypted; it says so itself.
    ///
    /// - Throws: ``ProtectionError/malformed``.
    public static func protectionLevel(of encryptedSecret: String) throws(ProtectionError) -> ProtectionLevel {
        try ProtectedText(encryptedSecret).level
    }

    /// The name of the enrolment under which a text was encrypted; it says so itself. See ``StoredEnrolment/id``.
    ///
    /// - Throws: ``ProtectionError/malformed``.
    public static func enrolmentID(of encryptedSecret: String) throws(ProtectionError) -> String {
        try ProtectedText(encryptedSecret).enrolmentID
    }

    /// The most bytes of UTF-8 that a secret may have: 1 MiB.
    public static var maximumSecretBytes: Int { ProtectedText.maximumBytes }

    /// The most characters that ``encrypt(secret:protectionLevel:)`` returns.
    public static var maximumEncryptedCharacters: Int { ProtectedText.maximumCharacters }

    private func key(of level: ProtectionLevel) throws(ProtectionError) -> (enrolmentID: String, key: LevelKey) {
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
