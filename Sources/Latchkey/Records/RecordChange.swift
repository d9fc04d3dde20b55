/// One part of a transaction.
public enum RecordChange: Sendable {
    /// Stores a record, whole.
    ///
    /// - Parameters:
    ///   - record: The metadata. Its own `generation` is not looked at.
    ///   - payload: The secret part, at most 1 MiB, or nil for none. It replaces what was there.
    ///   - ifGeneration: 0 when the record must not exist yet, the generation that was read when it must not have
    ///     changed since, or nil for either.
    case put(Record, payload: SecretBytes?, ifGeneration: Int?)

    /// Removes a record. Removing one that isn't there is no error when `ifGeneration` is nil.
    case delete(RecordID, ifGeneration: Int?)
}
