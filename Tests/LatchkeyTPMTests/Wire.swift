import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import Synchronization
import TPM2

/// What passes between a keystore and its TPM, over all of its connections. It can change responses.
final class Wire: Sendable {
    struct Exchange: Sendable {
        let command: [UInt8]
        let response: [UInt8]

        var code: TPMCommandCode {
            TPMCommandCode(rawValue: command[6..<10].reduce(0) { $0 << 8 | UInt32($1) })
        }
    }

    typealias Tampering = @Sendable (TPMCommandCode, [UInt8]) -> [UInt8]

    private let state = Mutex((exchanges: [Exchange](), tamper: { $1 } as Tampering))

    var exchanges: [Exchange] { state.withLock { $0.exchanges } }
    var codes: [TPMCommandCode] { exchanges.map(\.code) }
    var bytes: [UInt8] { exchanges.flatMap { $0.command + $0.response } }

    func forget() { state.withLock { $0.exchanges = [] } }
    func tamper(_ tampering: @escaping Tampering) { state.withLock { $0.tamper = tampering } }

    /// A keystore whose connections to the TPM go through this.
    func keystore(
        _ tpm: SoftwareTPM, anchors: any TrustAnchors = MemoryTrustAnchors(), isShared: Bool = false
    ) -> TPMKeystore {
        let tcti = tpm.tcti
        return TPMKeystore(anchors: anchors, isShared: isShared) { () throws(TPMError) in
            WiredTransport(self, try TCTIConnection(tcti))
        }
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
        wire.pass(command, try inner.exchange(command))
    }

    func close() { inner.close() }
}
