internal import Crypto
internal import FoundationEssentials
internal import Latchkey

/// Encrypts shares for a store: AES-256-GCM with a random nonce. A sealed share opens for its enrolment and level only.
struct LevelShareSeal: Sendable {
    private enum Level: String {
        case background, active
    }

    private let key: SymmetricKey

    /// - Parameter key: 32 bytes.
    init(key: SecretBytes) throws {
        guard key.count == 32 else {
            throw KeystoreError(
                operation: "keep level shares", code: .invalidInput,
                reason: "the key that seals them has \(key.count) bytes", recovery: "Give a key of 32 bytes.")
        }
        self.key = key.withUnsafeBytes { SymmetricKey(data: $0) }
    }

    /// A share in its sealed form, 60 bytes each: nonce, ciphertext, tag.
    func seal(_ shares: LevelShares, of enrolmentID: String) throws -> (background: Data, active: Data) {
        (
            try seal(shares.background, context(.background, enrolmentID)),
            try seal(shares.active, context(.active, enrolmentID))
        )
    }

    /// - Throws: ``KeystoreError`` with code `damaged` when they were sealed with another key, for another enrolment,
    ///   or have changed.
    func open(background: Data, active: Data, of enrolmentID: String) throws -> LevelShares {
        guard
            let background = try? open(background, context(.background, enrolmentID)),
            let active = try? open(active, context(.active, enrolmentID)),
            let shares = LevelShares(background: background, active: active)
        else {
            throw KeystoreError(
                operation: "open the level shares of an enrolment", code: .damaged,
                reason: "they are not what was stored, or were sealed with another key",
                recovery: "Restore the database together with the key from a backup, or revoke the enrolment.")
        }
        return shares
    }

    private func seal(_ share: SecretBytes, _ context: Data) throws -> Data {
        let box = try share.withUnsafeBytes { try AES.GCM.seal($0, using: key, authenticating: context) }
        return box.nonce + box.ciphertext + box.tag
    }

    private func open(_ sealed: Data, _ context: Data) throws -> SecretBytes {
        var share = try AES.GCM.open(AES.GCM.SealedBox(combined: sealed), using: key, authenticating: context)
        defer { share.resetBytes(in: share.startIndex..<share.endIndex) }
        return SecretBytes(share)
    }

    private func context(_ level: Level, _ enrolmentID: String) -> Data {
        Data("latchkey locker share\n\(level.rawValue)\n\(enrolmentID)".utf8)
    }
}
