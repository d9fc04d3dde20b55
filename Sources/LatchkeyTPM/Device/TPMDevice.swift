internal import Dispatch
internal import Glibc
internal import TPM2

/// One TPM, used by one operation at a time.
///
/// A connection lasts for one visit, so that nobody's waiting for a person keeps others out. A visit has no suspension
/// point, so nothing that it loads outlives it. Only where a resource manager gives each connection places of its own may
/// one be held while a person is asked.
actor TPMDevice {
    /// How often a visit is begun at most while others fill the TPM: about 1.3 seconds of waiting.
    private static let maximumVisits = 8

    /// What is held while a person is asked.
    private struct Held {
        let transport: any TPMTransport
        let tpm: TPM
        let session: Session
        let object: TPMObject
    }

    /// Whether a resource manager is between.
    nonisolated let isShared: Bool

    private let executor = TPMExecutor()
    private let connect: @Sendable () throws(TPMError) -> any TPMTransport
    private var held: [UInt64: Held] = [:]
    private var nextID: UInt64 = 0

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(isShared: Bool = false, connect: @escaping @Sendable () throws(TPMError) -> any TPMTransport) {
        self.isShared = isShared
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

    /// Connects, and keeps the connection with a session and a loaded object until ``use(_:_:)`` or ``drop(_:)``.
    func hold(
        _ prepare: @Sendable (TPM) throws(TPMError) -> (session: Session, object: TPMObject)
    ) throws(TPMError) -> HeldUse {
        let transport = ResubmittingTransport(try connect())
        do {
            let tpm = TPM(transport)
            let prepared = try prepare(tpm)
            nextID += 1
            held[nextID] = Held(
                transport: transport, tpm: tpm, session: prepared.session, object: prepared.object)
            return HeldUse(id: nextID, nonceTPM: prepared.session.nonceTPM)
        } catch {
            transport.close()
            throw error
        }
    }

    /// Uses what was held, and lets it go.
    func use<R: Sendable>(
        _ use: HeldUse, _ body: @Sendable (TPM, Session, TPMObject) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        guard let held = held.removeValue(forKey: use.id) else {
            throw TPMError(.transport(.broken), reason: "the connection to the TPM was given up")
        }
        defer { Self.release(held) }
        return try body(held.tpm, held.session, held.object)
    }

    /// Lets go what was held.
    func drop(_ use: HeldUse) {
        if let held = held.removeValue(forKey: use.id) { Self.release(held) }
    }

    /// The resource manager forgets what a connection leaves; saying so costs nothing that a person waits for.
    private static func release(_ held: Held) {
        if held.session.isLoaded { try? held.tpm.flushContext(held.session.handle) }
        try? held.tpm.flushContext(held.object.handle)
        held.transport.close()
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

/// Runs an actor on a queue of its own, since a TPM's calls block for up to minutes and the cooperative pool must not.
final class TPMExecutor: SerialExecutor {
    private let queue = DispatchQueue(label: "org.latchkey.tpm")

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }
}

/// A connection that was left open for one use, by its number; ``TPMDevice`` has it.
struct HeldUse: Hashable, Sendable {
    let id: UInt64
    let nonceTPM: [UInt8]
}
