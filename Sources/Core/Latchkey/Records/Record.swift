public import FoundationEssentials

/// One row of a container: metadata that can be read without the hardware, and an optional
/// encrypted payload.
public struct Record: Hashable, Sendable, Identifiable {
    public let id: RecordID
    /// The kind of record, for example `key` or `login.session`.
    public let kind: String
    /// The class whose key encrypts its payload.
    public let protection: ProtectionClass
    /// Names and values in the clear. They are authenticated, so reading the record detects a
    /// change.
    public var attributes: [String: String]
    /// The hardware key in the record, if there is one.
    public var key: HardwareKey?
    /// Increases with every change in the container; 0 for a record that was never stored.
    public let generation: Int
    /// When the record was first stored, in whole seconds.
    public let createdAt: Date
    /// When the record was last stored, in whole seconds.
    public let updatedAt: Date

    /// Creates a record that is not stored yet.
    public init(
        id: RecordID,
        kind: String,
        protection: ProtectionClass = .device,
        attributes: [String: String] = [:],
        key: HardwareKey? = nil
    ) {
        self.init(
            id: id, kind: kind, protection: protection, attributes: attributes, key: key,
            generation: 0,
            createdAt: .distantPast, updatedAt: .distantPast)
    }

    /// Creates the record of a key that belongs to no facade. The hardware authenticates the key,
    /// so storing the record needs no second hardware operation. The record has no payload, and its
    /// attributes are not authenticated.
    public init(key: HardwareKey) {
        self.init(
            id: RecordID(key.id), kind: Self.keyKind, protection: .selfAuthenticated, key: key)
    }

    /// The kind of a record that consists only of a key.
    package static let keyKind = "key"

    /// Whether the record consists only of a key, under the key's own name. The names of the
    /// facades' records contain a dot, which no key's name can, so an attacker cannot turn one of
    /// them into a record that needs no MAC.
    var isBareKey: Bool { kind == Self.keyKind && key.map { id == RecordID($0.id) } ?? false }

    /// Checks that this version of Latchkey supports the key.
    ///
    /// - Throws: ``CommonError`` with code `unsupported` if it does not.
    func checkKeyVersion() throws(CommonError) {
        guard let key, key.version != HardwareKey.currentVersion else { return }
        throw .unsupported(
            "the key of the record ‘\(id)’ has another version",
            recovery: "Install a newer version of Latchkey.")
    }

    init(
        id: RecordID, kind: String, protection: ProtectionClass, attributes: [String: String],
        key: HardwareKey?,
        generation: Int, createdAt: Date, updatedAt: Date
    ) {
        self.id = id
        self.kind = kind
        self.protection = protection
        self.attributes = attributes
        self.key = key
        self.generation = generation
        self.createdAt = createdAt
        self.updatedAt = updatedAt
    }
}

/// The name of a record within its container: 1 to 128 bytes of UTF-8.
public struct RecordID: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral,
    CustomStringConvertible
{
    public let rawValue: String

    public init(rawValue: String) { self.rawValue = rawValue }
    public init(stringLiteral value: String) { rawValue = value }
    /// The name of the record that contains this key.
    package init(_ key: KeyID) { rawValue = key.rawValue }

    public var description: String { rawValue }
}

/// One part of a transaction.
public enum RecordChange: Sendable {
    /// Stores a whole record.
    ///
    /// - Parameters:
    ///   - record: The metadata. Its `generation` is ignored.
    ///   - payload: The secret part, at most 1 MiB, or nil for none. It replaces the stored
    ///     payload.
    ///   - ifGeneration: 0 if the record must not exist, the generation that was read if the record
    ///     must be unchanged since, or nil for no condition.
    case put(Record, payload: SecretBytes?, ifGeneration: Int?)

    /// Deletes a record. Deleting a missing record is no error if `ifGeneration` is nil.
    case delete(RecordID, ifGeneration: Int?)
}
