internal import FoundationEssentials

/// Decides which rows are damaged.
extension RecordContainer {
    /// Verifies a row and returns its record and payload. The keys that this needs must be in
    /// memory.
    ///
    /// - Parameter session: The session in which the payload's class must be open; nil for any
    ///   session.
    func verified(
        _ row: RecordRow, in session: ClassSession? = nil
    ) throws(CommonError) -> (record: Record, payload: SecretBytes?) {
        let header = row.header
        let record = try self.record(of: row, header: header)
        guard !row.isSelfAuthenticated else {
            guard record.isBareKey, row.payload == nil else { throw Self.edited(record.id) }
            return (record, nil)
        }
        guard let device = keyring.session(ProtectionClass.device.name)?.opened else {
            throw Self.locked(.device, record.id)
        }
        guard device.isAuthentic(row.mac, for: row.authenticatedBytes(header: header)) else {
            throw Self.edited(record.id)
        }
        guard let sealed = row.payload else { return (record, nil) }
        guard let key = (session ?? keyring.session(row.className))?.opened else {
            throw Self.locked(record.protection, record.id)
        }
        guard session?.name ?? row.className == row.className else {
            throw .conflict(
                "the protection of the record ‘\(record.id)’ was changed in the meantime",
                recovery: "Read the stored record, then try again.")
        }
        guard let payload = try? key.open(sealed, header: header) else {
            throw Self.edited(record.id)
        }
        return (record, payload)
    }

    static func locked(_ protection: ProtectionClass, _ id: RecordID) -> CommonError {
        CommonError(
            code: .wrongState,
            reason: "the class ‘\(protection.name)’ of the record ‘\(id)’ is locked",
            recovery: "Unlock the class and try again.")
    }

    /// Returns a row's decoded metadata, unverified. Small rows are decoded once; the header has
    /// all bytes that are decoded.
    func record(of row: RecordRow) throws(CommonError) -> Record {
        try record(of: row, header: row.header)
    }

    private func record(of row: RecordRow, header: Data) throws(CommonError) -> Record {
        do {
            guard header.count <= Self.maximumKeptBytes else { return try row.record() }
            return try decoded.value(of: header) { try row.record() }
        } catch {
            throw CommonError(storing: error)
        }
    }

    /// The largest row in bytes whose decoded form is kept.
    private static let maximumKeptBytes = 16 << 10

    static func check(_ record: Record, _ payload: SecretBytes?) throws(CommonError) {
        try record.checkKeyVersion()
        guard record.id.rawValue.isName(maximumBytes: 128) else {
            throw .invalidInput(
                "the record's name is empty, too long, not in Unicode normalization form C, or contains a control or invisible character"
            )
        }
        guard payload?.count ?? 0 <= maximumPayloadBytes else {
            throw .invalidInput(
                "the record ‘\(record.id)’ is larger than \(maximumPayloadBytes) bytes")
        }
        if ProtectionClass.isSelfAuthenticated(record.protection.name) {
            guard record.isBareKey, payload == nil else {
                throw .invalidInput("without a class, only a key can be stored, under the key's id")
            }
        }
    }

    static func edited(_ id: RecordID) -> CommonError {
        .damaged("another program or a disk error changed the record ‘\(id)’")
    }
}
