package import Synchronization

/// A cache of the last results of a computation without side effects, for example of decoding
/// stored keys. Strings are equal if they are canonically equivalent, so an input whose bytes
/// matter must be bytes. Inlinable, so that other modules specialize it for their types.
package final class Memo<Input: Equatable & Sendable, Value: Sendable>: Sendable {
    @usableFromInline let count: Int
    /// The newest result is the last.
    @usableFromInline let results = Mutex<[(input: Input, value: Value)]>([])

    /// - Parameter count: The number of results to keep.
    @inlinable package init(count: Int = 1) { self.count = max(count, 1) }

    /// Returns the kept result for `input`, or calls `compute` and keeps its result. Does not keep
    /// errors.
    @inlinable package func value<E: Error>(of input: Input, _ compute: () throws(E) -> Value)
        throws(E) -> Value
    {
        if let kept = results.withLock({ $0.last { $0.input == input } }) { return kept.value }
        let value = try compute()
        results.withLock { results in
            if results.count == count { results.removeFirst() }
            results.append((input, value))
        }
        return value
    }
}
