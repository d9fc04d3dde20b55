internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import Synchronization

/// The key of one level: 32 random bytes, made at the enrolment and never changed.
struct LevelKey: Sendable, Equatable {
    static let byteCount = 32
    /// The length of a key id in a ciphertext, in bytes.
    static let idBytes = 8

    let secret: SecretBytes
    /// The id of the key. It reveals nothing about the key.
    let id: Data

    init(_ secret: SecretBytes) {
        self.secret = secret
        id = Self.derive(secret, salt: Data(), "latchkey/locker/key-id/v1", count: Self.idBytes)
            .withUnsafeBytes { Data($0) }
    }

    static func random() -> LevelKey { LevelKey(.random(count: byteCount)) }

    /// Derives the key that encrypts one text.
    func textKey(nonce: Data) -> SymmetricKey {
        Self.derive(secret, salt: nonce, "latchkey/locker/text/v1", count: Self.byteCount)
    }

    /// Derives a key that wraps another key.
    func wrappingKey(_ purpose: String) -> SymmetricKey {
        Self.derive(secret, salt: Data(), purpose, count: Self.byteCount)
    }

    private static func derive(_ secret: SecretBytes, salt: Data, _ info: String, count: Int)
        -> SymmetricKey
    {
        let root = secret.withUnsafeBytes { SymmetricKey(data: $0) }
        return HKDF<SHA256>.deriveKey(
            inputKeyMaterial: root, salt: salt, info: Data(info.utf8), outputByteCount: count)
    }
}

/// The keys of the open levels.
final class LevelKeyring: Sendable {
    private let keys = Mutex<[ProtectionLevel: LevelKey]>([:])

    subscript(level: ProtectionLevel) -> LevelKey? { keys.withLock { $0[level] } }

    /// Adds keys, and erases the keys of levels that are not open in the phase.
    func adopt(_ opened: [ProtectionLevel: LevelKey], in phase: SessionPhase) {
        keys.withLock { keys in
            keys.merge(opened) { $1 }
            keys = keys.filter { phase.openLevels.contains($0.key) }
        }
    }
}

/// The encrypted keys of the levels `background`, `active` and `offline`. They open with the
/// device's secret and the server's shares.
///
/// `background` and `active` are encrypted under HKDF-SHA256 of the device's secret and the
/// server's share of the level; without shares, of the device's secret only. `offline` is encrypted
/// under the key of `active`, for sessions that do not use the PIN.
struct LevelWraps: Sendable, Hashable {
    private static let levels = [ProtectionLevel.background, .active, .offline]

    private let wraps: [ProtectionLevel: Data]

    /// Wraps the keys.
    init(
        _ keys: [ProtectionLevel: LevelKey], deviceSecret: SecretBytes, shares: LevelKeyShares?,
        enrolmentID: String
    ) throws {
        var wraps: [ProtectionLevel: Data] = [:]
        for level in Self.levels {
            guard let key = keys[level], let active = keys[.active] else {
                throw CryptoKitError.incorrectKeySize
            }
            let share =
                level == .background ? shares?.background : level == .active ? shares?.active : nil
            let info = Self.info(level, enrolmentID, isShared: share != nil)
            let wrapping =
                level == .offline
                ? active.wrappingKey(info) : Self.shared(deviceSecret, share: share, info: info)
            wraps[level] = try key.secret.withUnsafeBytes { bytes in
                try AES.GCM.seal(bytes, using: wrapping, authenticating: Data(info.utf8)).combined
            }
        }
        self.wraps = wraps
    }

    /// Reads the attributes of a record.
    init?(_ attributes: [String: String]) {
        var wraps: [ProtectionLevel: Data] = [:]
        for level in Self.levels {
            guard let wrap = attributes["wrap.\(level.rawValue)"].flatMap(Base64URL.decode) else {
                return nil
            }
            wraps[level] = wrap
        }
        self.wraps = wraps
    }

    var attributes: [String: String] {
        Dictionary(
            uniqueKeysWithValues: wraps.map { ("wrap.\($0.rawValue)", Base64URL.encode($1)) })
    }

    /// Decrypts the key of a level; with `active`, also the key of `offline`.
    ///
    /// - Parameter share: The server's share of the level; nil if the server does not store shares.
    /// - Throws: An error if the share is not the one that the key was encrypted with.
    func open(
        _ level: ProtectionLevel, deviceSecret: SecretBytes, share: SecretBytes?,
        enrolmentID: String
    ) throws -> [ProtectionLevel: LevelKey] {
        let info = Self.info(level, enrolmentID, isShared: share != nil)
        let key = try unwrap(
            level, under: Self.shared(deviceSecret, share: share, info: info), info)
        guard level == .active else { return [level: key] }
        let offlineInfo = Self.info(.offline, enrolmentID, isShared: false)
        return [
            level: key,
            .offline: try unwrap(.offline, under: key.wrappingKey(offlineInfo), offlineInfo),
        ]
    }

    private static func info(_ level: ProtectionLevel, _ enrolmentID: String, isShared: Bool)
        -> String
    {
        "latchkey/locker/wrap/v1/\(isShared ? "shared" : "device")/\(level.rawValue)/\(enrolmentID)"
    }

    private static func shared(_ deviceSecret: SecretBytes, share: SecretBytes?, info: String)
        -> SymmetricKey
    {
        let material = SecretBytes(count: deviceSecret.count + (share?.count ?? 0)) { buffer in
            deviceSecret.withUnsafeBytes { buffer.copyMemory(from: $0) }
            share?.withUnsafeBytes {
                UnsafeMutableRawBufferPointer(rebasing: buffer[deviceSecret.count...]).copyMemory(
                    from: $0)
            }
        }
        return HKDF<SHA256>.deriveKey(
            inputKeyMaterial: material.withUnsafeBytes { SymmetricKey(data: $0) },
            info: Data(info.utf8),
            outputByteCount: LevelKey.byteCount)
    }

    private func unwrap(
        _ level: ProtectionLevel, under wrapping: SymmetricKey, _ info: String
    ) throws -> LevelKey {
        guard let wrapped = wraps[level] else { throw CryptoKitError.incorrectParameterSize }
        var plain = try AES.GCM.open(
            AES.GCM.SealedBox(combined: wrapped), using: wrapping, authenticating: Data(info.utf8))
        defer { plain.resetBytes(in: plain.startIndex..<plain.endIndex) }
        guard plain.count == LevelKey.byteCount else { throw CryptoKitError.incorrectKeySize }
        return LevelKey(SecretBytes(plain))
    }
}
