internal import Crypto
internal import FoundationEssentials
public import Latchkey

/// The server's shares of the keys that protect an enrolled device's data. The device needs them to
/// unseal its keys.
///
/// A server creates them at the enrolment, and never changes them. ``LockerRegistry`` stores them
/// sealed.
public struct LevelShares: Sendable, Equatable {
    /// The length of a share in bytes.
    private static let length = 32

    /// The share of the level `background`, 32 bytes. The server also releases it to the device
    /// without its user.
    public let background: SecretBytes
    /// The share of the level `active`, 32 bytes. The server releases it after the user was
    /// authenticated.
    public let active: SecretBytes

    /// Creates a value from existing shares, for example from another database.
    ///
    /// - Returns: nil unless both shares have 32 bytes.
    public init?(background: SecretBytes, active: SecretBytes) {
        guard background.count == Self.length, active.count == Self.length else { return nil }
        self.background = background
        self.active = active
    }

    /// Creates shares from the system's random number generator.
    public init() {
        background = .random(count: Self.length)
        active = .random(count: Self.length)
    }
}

/// Seals shares for the database with AES-256-GCM and a random nonce. A sealed share opens only for
/// its enrolment and level.
struct LevelShareSeal: Sendable {
    private let key: SymmetricKey

    /// - Parameter key: 32 bytes.
    init(key: SecretBytes) throws {
        guard key.count == 32 else {
            throw KeystoreError(
                operation: "seal level shares", code: .invalidInput,
                reason: "the sealing key has \(key.count) bytes", recovery: "Use a key of 32 bytes."
            )
        }
        self.key = key.withUnsafeBytes { SymmetricKey(data: $0) }
    }

    /// Seals both shares. A sealed share has 60 bytes: nonce, ciphertext, tag.
    func seal(_ shares: LevelShares, of enrolmentID: String) throws -> (
        background: Data, active: Data
    ) {
        (
            try seal(shares.background, context("background", enrolmentID)),
            try seal(shares.active, context("active", enrolmentID))
        )
    }

    /// Opens both shares.
    ///
    /// - Throws: ``KeystoreError`` with code `damaged` if they were sealed with another key or for
    ///   another enrolment, or were changed.
    func open(background: Data, active: Data, of enrolmentID: String) throws -> LevelShares {
        guard
            let background = try? open(background, context("background", enrolmentID)),
            let active = try? open(active, context("active", enrolmentID)),
            let shares = LevelShares(background: background, active: active)
        else {
            throw KeystoreError(
                operation: "open the level shares of an enrolment", code: .damaged,
                reason: "they are damaged, or were sealed with another key",
                recovery:
                    "Restore the database together with the key from a backup, or revoke the enrolment."
            )
        }
        return shares
    }

    private func seal(_ share: SecretBytes, _ context: Data) throws -> Data {
        let box = try share.withUnsafeBytes {
            try AES.GCM.seal($0, using: key, authenticating: context)
        }
        return box.nonce + box.ciphertext + box.tag
    }

    private func open(_ sealed: Data, _ context: Data) throws -> SecretBytes {
        var share = try AES.GCM.open(
            AES.GCM.SealedBox(combined: sealed), using: key, authenticating: context)
        defer { share.resetBytes(in: share.startIndex..<share.endIndex) }
        return SecretBytes(share)
    }

    private func context(_ level: String, _ enrolmentID: String) -> Data {
        Data("latchkey locker share\n\(level)\n\(enrolmentID)".utf8)
    }
}
