import Synchronization
import TPM2
import TPM2TCTI

/// A connection to a TPM that counts commands.
final class CountingTransport: TPMTransport {
    /// The commands of all connections that share the counter.
    final class Counter: Sendable {
        private let state = Mutex<[TPMCommandCode]>([])

        /// The commands since the last call.
        func take() -> [TPMCommandCode] {
            state.withLock { commands in
                defer { commands = [] }
                return commands
            }
        }

        fileprivate func count(_ code: TPMCommandCode) { state.withLock { $0.append(code) } }
    }

    private let counter: Counter
    private let inner: TCTIConnection

    init(_ tcti: String, _ counter: Counter) throws(TPMError) {
        self.counter = counter
        inner = try TCTIConnection(tcti)
    }

    func exchange(_ command: [UInt8]) throws(TPMError) -> [UInt8] {
        counter.count(TPMCommandCode(rawValue: command[6..<10].reduce(0) { $0 << 8 | UInt32($1) }))
        return try inner.exchange(command)
    }

    func close() { inner.close() }
}
