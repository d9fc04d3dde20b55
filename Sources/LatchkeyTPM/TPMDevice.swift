internal import Glibc
internal import TPM2

/// One TPM, used by one operation at a time.
///
/// A connection lasts for one visit, so that nobody's waiting for a person keeps others out. A visit has no suspension
/// point, so nothing that it loads outlives it.
actor TPMDevice {
    /// How often a visit is begun at most while others fill the TPM: about 1.3 seconds of waiting.
    private static let maximumVisits = 8

    private let executor = TPMExecutor()
    private let connect: @Sendable () throws(TPMError) -> any TPMTransport

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(connect: @escaping @Sendable () throws(TPMError) -> any TPMTransport) {
        self.connect = connect
    }

    /// Connects, lends the TPM to `body`, disconnects.
    ///
    /// Without a resource manager processes share three places, and nothing keeps them apart: tpm2-tss connects to swtpm
    /// anew for each command. A visit that finds no place has left nothing behind and proven nothing, so it is begun
    /// again, after a pause that differs between processes.
    func visit<R: Sendable>(_ body: @Sendable (TPM) throws(TPMError) -> R) throws(TPMError) -> R {
        var pause: UInt32 = 10_000
        for _ in 1..<Self.maximumVisits {
            do throws(TPMError) {
                return try visitOnce(body)
            } catch {
                guard Self.foundNoPlace(error) else { throw error }
            }
            // In microseconds.
            usleep(UInt32.random(in: pause / 2...pause))
            pause *= 2
        }
        return try visitOnce(body)
    }

    private func visitOnce<R: Sendable>(_ body: @Sendable (TPM) throws(TPMError) -> R) throws(TPMError) -> R {
        let transport = ResubmittingTransport(try connect())
        defer { transport.close() }
        return try body(TPM(transport))
    }

    /// Only what comes before a proof: a PIN is never sent twice.
    private static func foundNoPlace(_ error: TPMError) -> Bool {
        switch (error.command, error.responseCode?.base) {
        case (.createPrimary, .objectMemory), (.create, .objectMemory), (.load, .objectMemory),
            (.startAuthSession, .sessionMemory), (.startAuthSession, .objectMemory), (.readPublic, .objectMemory),
            (.contextLoad, .sessionMemory), (.contextLoad, .objectMemory):
            true
        default: false
        }
    }
}
