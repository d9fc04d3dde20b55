internal import Synchronization

/// The last result of a computation without side effects, for a value that is decoded again for each use: a stored key, for example.
package final class Memo<Input: Equatable & Sendable, Value: Sendable>: Sendable {
    private let last = Mutex<(input: Input, value: Value)?>(nil)

    package init() {}

    /// Returns the last value if `input` is equal to the last input; otherwise the result of `compute`. Keeps no error.
    package func value<E: Error>(of input: Input, _ compute: () throws(E) -> Value) throws(E) -> Value {
        if let last = last.withLock({ $0 }), last.input == input { return last.value }
        let value = try compute()
        last.withLock { $0 = (input, value) }
        return value
    }
}
