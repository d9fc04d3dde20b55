internal import Latchkey

/// A key that is about to be used, or no longer: whoever finds its row after a crash knows that it has to go, from the
/// hardware and, an easy-access key, from the server.
struct PendingKey: Sendable {
    enum Role: String, Sendable {
        case device
        case easyAccess = "easy-access"
    }

    let role: Role
    let key: HardwareKey
    /// 0 before it is stored.
    var generation = 0

    static let kind: RecordKind = "locker.pending"

    var id: RecordID { RecordID(rawValue: "locker.pending.\(key.id)") }

    /// The change that stores it, where it is not stored yet.
    var put: RecordChange {
        .put(
            Record(
                id: id, kind: Self.kind, protection: .device.withOwnPIN, attributes: ["role": role.rawValue], key: key),
            payload: nil, ifGeneration: 0)
    }

    /// The change that ends it; it fails when another program has done so.
    var delete: RecordChange { .delete(id, ifGeneration: generation) }

    init(_ role: Role, _ key: HardwareKey) {
        self.role = role
        self.key = key
    }

    /// A key of easy access that signs no more, and that the server may still know.
    init(givenUp key: HardwareKey) {
        self.init(.easyAccess, key.withoutAuthorization)
    }

    init?(_ record: Record) {
        guard let role = record.attributes["role"].flatMap(Role.init), let key = record.key else { return nil }
        self.init(role, key)
        generation = record.generation
    }
}
