/// A change of a container's protection classes, made in the transaction that changes the records.
package enum ClassChange: Sendable {
    /// Stores a new class.
    case add(PreparedClass)
    /// Locks all classes whose names begin so, and destroys their keys: what was encrypted under them can't be read any
    /// more. Where the hardware can take them back, ``RecordContainer/finishRevocations()`` has it do so, and no copy of
    /// the store opens them then.
    case drop(prefix: String)
    /// Changes nothing, and refuses the transaction where there is any class whose name begins so.
    case expectNone(prefix: String)
}
