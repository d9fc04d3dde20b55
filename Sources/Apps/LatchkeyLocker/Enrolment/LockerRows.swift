internal import FoundationEssentials
internal import Latchkey

/// The rows that a locker stores in its container.
///
/// | id | contents |
/// |---|---|
/// | `locker.enrolment` | the enrolment; payload: key of `base`, device secret; a separate class, bound to the device |
/// | `locker.offline` | payload: key of `offline`; a separate class under the policy of easy access |
/// | `locker.dpop` | the key to which the server binds the session's tokens |
/// | `locker.counters` | the limits of offline verification |
/// | the keys' ids | the keys, which the hardware authenticates |
/// | `locker.pending.…` | keys that a crash could leave unused in the hardware |
/// | `locker.tombstone.…` | enrolments that are incomplete, or destroyed and not yet revoked at the server |
struct LockerRows: Sendable {
    static let enrolmentID: RecordID = "locker.enrolment"
    static let offlineID: RecordID = "locker.offline"
    static let countersID: RecordID = "locker.counters"
    static let dpopID: RecordID = "locker.dpop"

    let records: RecordContainer

    // MARK: Reading

    /// Whether the hardware can revoke the keys of `base` and `offline` and the key of easy access;
    /// nil without an enrolment. Not verified. Does not use the hardware.
    func isRevocable() async throws(KeystoreError) -> Bool? {
        guard let attributes = try await records.metadata(Self.enrolmentID)?.attributes else {
            return nil
        }
        return try await isRevocable(attributes)
    }

    /// Returns the same for the attributes of an enrolment's row.
    func isRevocable(_ attributes: [String: String]) async throws(KeystoreError) -> Bool? {
        guard let id = attributes["enrolment"] else { return nil }
        guard try await key(attributes["easyAccess"])?.isRevocable ?? true else { return false }
        return try await records.areRevocable(Enrolment.classes(of: id))
    }

    /// Reads and verifies the enrolment, and unseals its secrets.
    func enrolment(
        for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> Enrolment? {
        guard
            let found = try await records.read(
                Self.enrolmentID, for: prompt, authorizedBy: presence)
        else {
            return nil
        }
        let attributes = found.record.attributes
        guard let payload = found.payload, payload.count == 2 * LevelKey.byteCount,
            let id = attributes["enrolment"], Enrolment.isValid(id: id),
            let issuer = attributes["issuer"],
            let clientID = attributes["client"], let userID = attributes["user"],
            let wraps = LevelWraps(attributes),
            Enrolment.baseClasses(of: id).contains(found.record.protection),
            let deviceKey = try await key(attributes["deviceKey"])
        else { throw .damaged("the stored enrolment can't be read") }
        var easyAccess: Enrolment.EasyAccess?
        if let kid = attributes["easyAccess"] {
            guard let key = try await key(kid),
                let offline = try await records.metadata(Self.offlineID),
                Enrolment.offlineClasses(of: id).contains(offline.protection)
            else { throw .damaged("the stored easy access can't be read") }
            easyAccess = .init(key: key, offlineClass: offline.protection)
        }
        return Enrolment(
            id: id, issuer: issuer, clientID: clientID, userID: userID,
            isShared: attributes["shared"] == "true",
            deviceKey: deviceKey, easyAccess: easyAccess, wraps: wraps,
            baseClass: found.record.protection, baseKey: LevelKey(payload.part(0)),
            deviceSecret: payload.part(1),
            generation: found.record.generation)
    }

    /// Reads the values for deleting an enrolment: the row's generation, and the key of easy
    /// access, which another program may have changed. Not verified.
    ///
    /// - Returns: nil if there is no enrolment, or one with another id.
    func existing(_ id: String) async throws(KeystoreError) -> (
        generation: Int, easyAccess: HardwareKey?
    )? {
        guard let row = try await records.metadata(Self.enrolmentID),
            row.attributes["enrolment"] == id
        else {
            return nil
        }
        return (row.generation, try await key(row.attributes["easyAccess"]))
    }

    private func key(_ kid: String?) async throws(KeystoreError) -> HardwareKey? {
        guard let kid = kid.flatMap(KeyID.init) else { return nil }
        return try await records.metadata(RecordID(kid))?.key
    }

    /// Unseals the key of the level `offline`, which requires user verification. Locks the class
    /// again.
    func offlineKey(
        in protection: ProtectionClass, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> LevelKey {
        defer { records.lock(prefix: protection.name) }
        try await records.open(protection, for: prompt, authorizedBy: presence)
        guard
            let payload = try await records.read(
                Self.offlineID, for: prompt, authorizedBy: presence)?.payload,
            payload.count == LevelKey.byteCount
        else { throw .damaged("the key of offline data can't be read") }
        return LevelKey(payload)
    }

    /// Reads and verifies the counters.
    func counters(
        for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> LockerCounters {
        let found = try await records.read(Self.countersID, for: prompt, authorizedBy: presence)
        return found.map { LockerCounters($0.record.attributes, generation: $0.record.generation) }
            ?? LockerCounters()
    }

    func tombstones(for prompt: PromptContext) async throws(KeystoreError) -> [Tombstone] {
        try await verified(Tombstone.kind, for: prompt).compactMap(Tombstone.init)
    }

    func pendingKeys(for prompt: PromptContext) async throws(KeystoreError) -> [PendingKey] {
        try await verified(PendingKey.kind, for: prompt).compactMap(PendingKey.init)
    }

    private func verified(_ kind: String, for prompt: PromptContext) async throws(KeystoreError)
        -> [Record]
    {
        var found: [Record] = []
        for listed in try await records.list(kind) {
            if let record = try await records.read(listed.id, for: prompt)?.record {
                found.append(record)
            }
        }
        return found
    }

    // MARK: Changes

    /// Stores the enrolment without its keys. Fails if another program has changed the enrolment
    /// since it was read.
    static func put(_ enrolment: Enrolment) -> RecordChange {
        var attributes = enrolment.wraps.attributes
        attributes["enrolment"] = enrolment.id
        attributes["issuer"] = enrolment.issuer
        attributes["client"] = enrolment.clientID
        attributes["user"] = enrolment.userID
        attributes["shared"] = enrolment.isShared ? "true" : "false"
        attributes["deviceKey"] = enrolment.deviceKey.id.rawValue
        attributes["easyAccess"] = enrolment.easyAccess?.key.id.rawValue
        let record = Record(
            id: enrolmentID, kind: "locker.enrolment", protection: enrolment.baseClass,
            attributes: attributes)
        let payload = SecretBytes(count: 2 * LevelKey.byteCount) { buffer in
            enrolment.baseKey.secret.withUnsafeBytes { buffer.copyMemory(from: $0) }
            enrolment.deviceSecret.withUnsafeBytes {
                UnsafeMutableRawBufferPointer(rebasing: buffer[LevelKey.byteCount...]).copyMemory(
                    from: $0)
            }
        }
        return .put(record, payload: payload, ifGeneration: enrolment.generation)
    }

    static func put(offline key: LevelKey, in protection: ProtectionClass) -> RecordChange {
        .put(
            Record(id: offlineID, kind: "locker.offline", protection: protection),
            payload: key.secret,
            ifGeneration: nil)
    }

    /// - Parameter generation: The generation that was read; nil to replace any row.
    static func put(_ counters: LockerCounters, ifGeneration generation: Int?) -> RecordChange {
        .put(
            Record(id: countersID, kind: "locker.counters", attributes: counters.attributes),
            payload: nil,
            ifGeneration: generation)
    }

    static func put(_ key: HardwareKey) -> RecordChange {
        .put(
            Record(
                id: RecordID(key.id), kind: Record.keyKind,
                protection: .selfAuthenticated.withOwnPIN, attributes: ["owner": "locker"],
                key: key),
            payload: nil, ifGeneration: nil)
    }

    /// Deletes all rows of an enrolment and the keys of its classes. Rows that now belong to
    /// another enrolment stay.
    ///
    /// - Parameters:
    /// - generation: The generation of the enrolment's row; nil if the row is gone.
    /// - keys: All keys of the enrolment.
    static func erasing(
        _ enrolment: Enrolment, at generation: Int?, _ keys: [HardwareKey]
    ) -> (records: [RecordChange], classes: [ClassChange]) {
        var records = keys.map { RecordChange.delete(RecordID($0.id), ifGeneration: nil) }
        if let generation {
            records =
                [
                    .delete(enrolmentID, ifGeneration: generation),
                    .delete(offlineID, ifGeneration: nil),
                    .delete(countersID, ifGeneration: nil),
                ] + records
        }
        return (records, Enrolment.classes(of: enrolment.id).map { .drop(prefix: $0.prefix) })
    }

    /// Deletes easy access, and keeps the rest of the enrolment.
    static func erasing(
        _ easyAccess: Enrolment.EasyAccess, of enrolment: Enrolment
    ) -> (records: [RecordChange], classes: [ClassChange]) {
        var without = enrolment
        without.easyAccess = nil
        return (
            [
                put(without), .delete(offlineID, ifGeneration: nil),
                .delete(RecordID(easyAccess.key.id), ifGeneration: nil),
            ], [.drop(prefix: Enrolment.offlineClasses(of: enrolment.id).prefix)]
        )
    }
}

extension SecretBytes {
    /// The 32 bytes at `index` × 32.
    fileprivate func part(_ index: Int) -> SecretBytes {
        withUnsafeBytes { bytes in
            SecretBytes(count: LevelKey.byteCount) { buffer in
                buffer.copyMemory(
                    from: UnsafeRawBufferPointer(
                        rebasing: bytes[
                            index * LevelKey.byteCount..<(index + 1) * LevelKey.byteCount]))
            }
        }
    }
}

/// A key that is not part of an enrolment yet, or no longer. If a crash leaves its row, the next
/// run deletes the key from the hardware, and an easy-access key also from the server.
struct PendingKey: Sendable {
    enum Role: String, Sendable {
        case device
        case easyAccess = "easy-access"
    }

    let role: Role
    let key: HardwareKey
    /// The generation of the row; 0 before it is stored.
    var generation = 0

    static let kind = "locker.pending"

    var id: RecordID { RecordID(rawValue: "locker.pending.\(key.id)") }

    /// Stores the row if it does not exist yet.
    var put: RecordChange {
        .put(
            Record(
                id: id, kind: Self.kind, protection: .device.withOwnPIN,
                attributes: ["role": role.rawValue], key: key),
            payload: nil, ifGeneration: 0)
    }

    /// Deletes the row. Fails if another program has deleted it.
    var delete: RecordChange { .delete(id, ifGeneration: generation) }

    init(_ role: Role, _ key: HardwareKey) {
        self.role = role
        self.key = key
    }

    /// An easy-access key that is deleted here and that the server may still accept.
    init(removed key: HardwareKey) {
        self.init(.easyAccess, key.withoutAuthorization)
    }

    init?(_ record: Record) {
        guard let role = record.attributes["role"].flatMap(Role.init), let key = record.key else {
            return nil
        }
        self.init(role, key)
        generation = record.generation
    }
}

/// An enrolment that was destroyed or never completed, and that the server may still store. The row
/// has no secret: its statement can only revoke the enrolment.
struct Tombstone: Hashable, Sendable {
    let enrolmentID: String
    let issuer: String
    /// The `revoke` assertion.
    let statement: String

    static let kind = "locker.tombstone"

    var id: RecordID { RecordID(rawValue: "locker.tombstone.\(enrolmentID)") }

    /// Stores the row.
    var put: RecordChange {
        let attributes = ["enrolment": enrolmentID, "issuer": issuer, "statement": statement]
        return .put(
            Record(id: id, kind: Self.kind, attributes: attributes), payload: nil, ifGeneration: nil
        )
    }

    init(enrolmentID: String, issuer: String, statement: String) {
        self.enrolmentID = enrolmentID
        self.issuer = issuer
        self.statement = statement
    }

    init?(_ record: Record) {
        guard let id = record.attributes["enrolment"], Enrolment.isValid(id: id),
            let issuer = record.attributes["issuer"], let statement = record.attributes["statement"]
        else { return nil }
        self.init(enrolmentID: id, issuer: issuer, statement: statement)
    }
}
