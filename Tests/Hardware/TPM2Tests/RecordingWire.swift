import TPM2

/// A transport between the library and a TPM. It records commands and responses, and can change
/// them.
final class RecordingWire: TPMTransport {
    /// A command and its response.
    struct Exchange {
        let command: [UInt8]
        let response: [UInt8]

        var code: TPMCommandCode {
            TPMCommandCode(rawValue: command[6..<10].reduce(0) { $0 << 8 | UInt32($1) })
        }
    }

    private let inner: any TPMTransport
    private(set) var exchanges: [Exchange] = []
    /// Changes a response before the library sees it.
    var tamper: (TPMCommandCode, [UInt8]) -> [UInt8] = { $1 }

    init(_ inner: any TPMTransport) {
        self.inner = inner
    }

    func exchange(_ command: [UInt8]) throws(TPMError) -> [UInt8] {
        let response = try inner.exchange(command)
        let exchange = Exchange(command: command, response: response)
        exchanges.append(exchange)
        return tamper(exchange.code, response)
    }

    func close() {
        inner.close()
    }
}

/// Answers every command with the same bytes.
final class CannedTransport: TPMTransport {
    private let responses: [[UInt8]]
    private(set) var commands: [[UInt8]] = []

    /// The last response is repeated.
    init(_ responses: [UInt8]...) {
        self.responses = responses
    }

    func exchange(_ command: [UInt8]) throws(TPMError) -> [UInt8] {
        commands.append(command)
        return responses[min(commands.count, responses.count) - 1]
    }

    func close() {}
}
