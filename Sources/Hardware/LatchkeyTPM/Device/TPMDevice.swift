internal import Glibc
internal import Latchkey
internal import LatchkeyPlatform
internal import Synchronization
internal import TPM2

/// One TPM, used by one operation at a time, on its own thread: calls to a TPM block for up to
/// minutes.
///
/// A connection lasts for one call of ``run(_:)``, so that a prompt does not block other processes.
/// That call has no suspension point, so it leaves no loaded objects. Only a connection to a
/// resource manager, which has its own object slots, may stay open during a prompt.
actor TPMDevice {
    /// The maximum number of tries while other processes use all memory of the TPM: a wait of about
    /// 1.3 seconds.
    private static let maximumTries = 8

    /// A connection that stays open during a prompt.
    private struct Held {
        let transport: any TPMTransport
        let tpm: TPM
        let session: Session
        let object: TPMObject
    }

    /// Whether a resource manager shares the TPM.
    nonisolated let isShared: Bool

    /// For each Name, whether this TPM has the storage root key with that Name.
    nonisolated let knownRoots = Mutex<[TPMName: Bool]>([:])

    /// The endorsement key that was found, with its certificates.
    nonisolated let knownEndorsementKeys = Mutex<EndorsementKeys?>(nil)

    private let thread = BlockingThread()
    private let connect: @Sendable () throws(TPMError) -> any TPMTransport
    private var held: [UInt64: Held] = [:]
    private var nextID: UInt64 = 0

    nonisolated var unownedExecutor: UnownedSerialExecutor { thread.asUnownedSerialExecutor() }

    init(
        isShared: Bool = false, connect: @escaping @Sendable () throws(TPMError) -> any TPMTransport
    ) {
        self.isShared = isShared
        self.connect = connect
    }

    /// Runs an operation on the TPM's thread: only its first command and its result switch threads.
    /// The TPM's thread can do other work while the operation waits for the user.
    func operate<R: Sendable>(
        _ operation: @Sendable () async throws(KeystoreError) -> R
    ) async throws(KeystoreError) -> R {
        try await operation()
    }

    /// Connects, lends the TPM to `body`, and disconnects.
    ///
    /// Without a resource manager, all processes share three slots without a lock: tpm2-tss opens a
    /// new connection to swtpm for each command. If there is no free slot, nothing stays loaded and
    /// no PIN was proven, so the operation is repeated after a random pause.
    func run<R: Sendable>(_ body: @Sendable (TPM) throws(TPMError) -> R) throws(TPMError) -> R {
        let wait = HardwareWait.begin(for: .tpm)
        defer { wait?.cancel() }
        var pause: UInt32 = 10_000
        for _ in 1..<Self.maximumTries {
            do throws(TPMError) {
                return try connected(body)
            } catch {
                guard Self.foundNoSlot(error) else { throw error }
            }
            // In microseconds.
            usleep(UInt32.random(in: pause / 2...pause))
            pause *= 2
        }
        return try connected(body)
    }

    /// Connects, and keeps the connection with a session and a loaded object until ``use(_:_:)`` or
    /// ``drop(_:)``.
    func hold(
        _ prepare: @Sendable (TPM) throws(TPMError) -> (session: Session, object: TPMObject)
    ) throws(TPMError) -> HeldUse {
        let wait = HardwareWait.begin(for: .tpm)
        defer { wait?.cancel() }
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

    /// Uses a held connection, then releases it.
    func use<R: Sendable>(
        _ use: HeldUse, _ body: @Sendable (TPM, Session, TPMObject) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        guard let held = held.removeValue(forKey: use.id) else {
            throw TPMError(.transport(.broken), reason: "the connection to the TPM was closed")
        }
        defer { Self.release(held) }
        let wait = HardwareWait.begin(for: .tpm)
        defer { wait?.cancel() }
        return try body(held.tpm, held.session, held.object)
    }

    /// Releases a held connection.
    func drop(_ use: HeldUse) {
        if let held = held.removeValue(forKey: use.id) { Self.release(held) }
    }

    /// Flushes explicitly, although the resource manager would flush too.
    private static func release(_ held: Held) {
        defer { held.transport.close() }
        if held.session.isLoaded { try? held.tpm.execute(FlushContext(held.session.handle)) }
        try? held.tpm.execute(FlushContext(held.object.handle))
    }

    private func connected<R: Sendable>(_ body: @Sendable (TPM) throws(TPMError) -> R)
        throws(TPMError) -> R
    {
        let transport = ResubmittingTransport(try connect())
        defer { transport.close() }
        return try body(TPM(transport))
    }

    /// Only commands before a proof count, so that a PIN is never sent twice.
    private static func foundNoSlot(_ error: TPMError) -> Bool {
        switch (error.command, error.responseCode?.base) {
        case (.createPrimary, .objectMemory), (.create, .objectMemory), (.load, .objectMemory),
            (.startAuthSession, .sessionMemory), (.startAuthSession, .objectMemory),
            (.readPublic, .objectMemory),
            (.contextLoad, .sessionMemory), (.contextLoad, .objectMemory):
            true
        default: false
        }
    }
}

/// The number of a connection that ``TPMDevice`` keeps open for one use.
struct HeldUse: Hashable, Sendable {
    let id: UInt64
    let nonceTPM: [UInt8]
}
