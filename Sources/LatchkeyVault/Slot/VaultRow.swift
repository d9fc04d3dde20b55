internal import Latchkey

/// How a vault is stored: one record, which has the name of the vault, and for a vault with biometrics a protection
/// class of its own, with a new key at each change of protection.
struct VaultRow: Sendable {
    static let kind: RecordKind = "vault"
    private static let longestKey = 64
    private static let idPrefix = "vault."

    let id: RecordID
    let classes: ClassFamily

    /// - Throws: ``KeystoreError`` with code `invalidInput` for an impossible name.
    init(key: String) throws(KeystoreError) {
        guard
            (1...Self.longestKey).contains(key.utf8.count),
            !key.unicodeScalars.contains(where: { $0.properties.generalCategory == .control })
        else {
            throw KeystoreError(
                operation: "open the vault", code: .invalidInput, reason: "‘\(key)’ is no name for one",
                recovery: "Give it a name of 1 to \(Self.longestKey) bytes without control characters.")
        }
        id = RecordID(rawValue: Self.idPrefix + key)
        classes = ClassFamily("vault", of: key)
    }

    /// The name of the vault whose record has this name.
    static func key(_ id: RecordID) -> String { String(id.rawValue.dropFirst(idPrefix.count)) }

    /// The change that stores the credentials.
    func put(_ payload: SecretBytes, in protection: ProtectionClass, ifGeneration generation: Int) -> RecordChange {
        .put(Record(id: id, kind: Self.kind, protection: protection), payload: payload, ifGeneration: generation)
    }
}
