package import Synchronization

/// The last results of a computation without side effects, for values that are decoded again for each use: stored keys, for
/// example. Inlinable, so that other modules compile it for their types.
package final class Memo<Input: Equatable & Sendable, Value: Sendable>: Sendable {
    @usableFromInline let count: Int
    /// The newest last.
    @usableFromInline let results = Mutex<[(input: Input, value: Value)]>([])

    /// - Parameter count: The number of results to keep.
    @inlinable package init(count: Int = 1) { self.count = count }

    /// Returns the kept result for `input`; otherwise the result of `compute`. Keeps no error.
    @inlinable package func value<E: Error>(of input: Input, _ compute: () throws(E) -> Value) throws(E) -> Value {
        if let kept = results.withLock({ $0.last { $0.input == input } }) { return kept.value }
        let value = try compute()
        results.withLock { results in
            if results.count == count { results.removeFirst() }
            results.append((input, value))
        }
        return value
    }
}
