import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import Synchronization
import TPM2
import TPM2TCTI

/// What passes between a keystore and its TPM, over all of its connections. It can change both
/// ways.
final class Wire: Sendable {
    struct Exchange: Sendable {
        let command: [UInt8]
        let response: [UInt8]

        var code: TPMCommandCode {
            TPMCommandCode(rawValue: command[6..<10].reduce(0) { $0 << 8 | UInt32($1) })
        }
    }

    typealias Tampering = @Sendable (TPMCommandCode, [UInt8]) -> [UInt8]
    /// Gives a response in the TPM's place, which then never sees the command; nil passes the
    /// command on.
    typealias Interception = @Sendable (TPMCommandCode, [UInt8]) -> [UInt8]?

    /// Acts as another user of the TPM before a command is sent, with the connection.
    typealias Interruption = @Sendable (TPMCommandCode, any TPMTransport) -> Void

    private struct State {
        var exchanges: [Exchange] = []
        var tamper: Tampering = { $1 }
        var replace: Tampering = { $1 }
        var intercept: Interception = { _, _ in nil }
        var interrupt: Interruption = { _, _ in }
    }

    private let state = Mutex(State())

    var exchanges: [Exchange] { state.withLock { $0.exchanges } }
    var codes: [TPMCommandCode] { exchanges.map(\.code) }
    var bytes: [UInt8] { exchanges.flatMap { $0.command + $0.response } }

    func forget() { state.withLock { $0.exchanges = [] } }
    /// Changes responses from now on.
    func tamper(_ tampering: @escaping Tampering) { state.withLock { $0.tamper = tampering } }
    /// Changes commands from now on.
    func replace(_ replacing: @escaping Tampering) { state.withLock { $0.replace = replacing } }

    /// Answers commands in the TPM's place from now on.
    func intercept(_ interception: @escaping Interception) {
        state.withLock { $0.intercept = interception }
    }
    /// Acts before each command from now on.
    func interrupt(_ interruption: @escaping Interruption) {
        state.withLock { $0.interrupt = interruption }
    }

    /// Passes everything on as it is from now on.
    func behave() {
        state.withLock { state in
            let exchanges = state.exchanges
            state = State(exchanges: exchanges)
        }
    }

    /// A response that is an error.
    static func error(_ code: UInt32) -> [UInt8] {
        [0x80, 0x01, 0, 0, 0, 10] + withUnsafeBytes(of: code.bigEndian) { Array($0) }
    }

    /// A keystore whose connections to the TPM go through this.
    func keystore(
        _ tpm: SoftwareTPM, anchors: any TrustAnchors = MemoryTrustAnchors(), isShared: Bool = false
    ) -> TPMKeystore {
        let tcti = tpm.tcti
        return TPMKeystore(anchors: anchors, isShared: isShared) { () throws(TPMError) in
            WiredTransport(self, try TCTIConnection(tcti))
        }
    }

    /// A connection to the TPM that goes through this.
    func transport(_ tpm: SoftwareTPM) throws(TPMError) -> any TPMTransport {
        WiredTransport(self, try TCTIConnection(tpm.tcti))
    }

    fileprivate func outgoing(_ command: [UInt8]) -> [UInt8] {
        let replace = state.withLock { $0.replace }
        return replace(Exchange(command: command, response: []).code, command)
    }

    fileprivate func interrupt(_ command: [UInt8], _ inner: any TPMTransport) {
        let interrupt = state.withLock { $0.interrupt }
        interrupt(Exchange(command: command, response: []).code, inner)
    }

    fileprivate func answer(to command: [UInt8]) -> [UInt8]? {
        let intercept = state.withLock { $0.intercept }
        return intercept(Exchange(command: command, response: []).code, command)
    }

    fileprivate func pass(_ command: [UInt8], _ response: [UInt8]) -> [UInt8] {
        let exchange = Exchange(command: command, response: response)
        let tamper = state.withLock { state in
            state.exchanges.append(exchange)
            return state.tamper
        }
        return tamper(exchange.code, response)
    }
}

private final class WiredTransport: TPMTransport {
    private let wire: Wire
    private let inner: any TPMTransport

    init(_ wire: Wire, _ inner: any TPMTransport) {
        self.wire = wire
        self.inner = inner
    }

    func exchange(_ command: [UInt8]) throws(TPMError) -> [UInt8] {
        let sent = wire.outgoing(command)
        if let answer = wire.answer(to: sent) { return answer }
        wire.interrupt(sent, inner)
        return wire.pass(sent, try inner.exchange(sent))
    }

    func close() { inner.close() }
}
