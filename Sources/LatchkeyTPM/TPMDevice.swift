internal import TPM2

/// One TPM, used by one operation at a time.
///
/// A connection lasts for one visit: a bare swtpm serves one at a time, and whoever else waits for it must not wait
/// for a person. A visit has no suspension point, so nothing that it loads outlives it.
actor TPMDevice {
    private let executor = TPMExecutor()
    private let connect: @Sendable () throws(TPMError) -> any TPMTransport

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(connect: @escaping @Sendable () throws(TPMError) -> any TPMTransport) {
        self.connect = connect
    }

    /// Connects, lends the TPM to `body`, disconnects.
    func visit<R: Sendable>(_ body: @Sendable (TPM) throws(TPMError) -> R) throws(TPMError) -> R {
        let transport = ResubmittingTransport(try connect())
        defer { transport.close() }
        return try body(TPM(transport))
    }
}
