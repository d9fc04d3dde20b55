public import FoundationEssentials

/// One row of a container: metadata that can be read without the hardware, and perhaps an encrypted payload that
/// can't.
public struct Record: Hashable, Sendable, Identifiable {
    public let id: RecordID
    /// What it is a record of.
    public let kind: RecordKind
    /// The class whose key encrypts its payload.
    public let protection: ProtectionClass
    /// Names and values in the clear. They are authenticated, so an edit shows when the record is read.
    public var attributes: [String: String]
    /// The hardware key that the record holds, if it holds one.
    public var key: HardwareKey?
    /// Rises with every change in the container; 0 for a record that was never stored.
    public let generation: Int
    /// Whole seconds; when the record was first stored.
    public let createdAt: Date
    /// Whole seconds; when the record was last stored.
    public let updatedAt: Date

    /// A record that is not stored yet.
    public init(
        id: RecordID,
        kind: RecordKind,
        protection: ProtectionClass = .device,
        attributes: [String: String] = [:],
        key: HardwareKey? = nil
    ) {
        self.init(
            id: id, kind: kind, protection: protection, attributes: attributes, key: key, generation: 0,
            createdAt: .distantPast, updatedAt: .distantPast)
    }

    /// Whether the record is nothing but a key under the key's own name. No facade's record is: their names hold a
    /// dot, which no key's name can, so that nobody can pass one of them off as a record that needs no MAC.
    var isBareKey: Bool { kind == .key && key.map { id == RecordID($0.id) } ?? false }

    init(
        id: RecordID, kind: RecordKind, protection: ProtectionClass, attributes: [String: String], key: HardwareKey?,
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
