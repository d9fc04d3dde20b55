import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import Synchronization
import Testing

/// Locks that come while a class is being opened or created.
@Suite(.softwareTPM)
struct ClassLockTests {
    private let prompt = PromptContext(reason: "test the lock")
    private let gated = ProtectionClass(name: "gated.a", policy: .pin)

    /// Both ways to lock the class.
    enum Lock: CaseIterable, Sendable {
        case all, prefix

        func callAsFunction(_ container: RecordContainer) async {
            switch self {
            case .all: await container.lock()
            case .prefix: container.lock(prefix: "gated.")
            }
        }
    }

    @Test(arguments: Lock.allCases)
    func `a class stays locked if a lock comes while its first record is being stored`(lock: Lock)
        async throws
    {
        let directory = try TemporaryDirectory()
        // The clock is read when the keys are open and nothing is stored yet.
        let clock = InterruptedClock()
        let container = try await container(directory, clock)
        try await container.open(.device, for: prompt, authorizedBy: NobodyPresent())
        let prepared = try await container.prepare(
            gated, for: prompt, authorizedBy: ScriptedPresence(pins: "2468"))
        clock.interrupt {
            switch lock {
            case .all: container.lock(prefix: "")
            case .prefix: container.lock(prefix: "gated.")
            }
        }
        let put = RecordChange.put(
            Record(id: "a", kind: "note", protection: gated), payload: SecretBytes([7]),
            ifGeneration: 0)
        try container.applyNow([put], classes: [.add(prepared)])
        #expect(clock.wasInterrupted)
        #expect(!prepared.session.isOpen)
        #expect(container.session(gated) == nil)
        // It is stored nevertheless, and opens with the PIN.
        await #expect(throws: wrongProof) {
            try await container.read("a", for: prompt, authorizedBy: ScriptedPresence(pins: "0000"))
        }
        let read = try await container.read(
            "a", for: prompt, authorizedBy: ScriptedPresence(pins: "2468"))
        #expect(read?.payload == SecretBytes([7]))
    }

    @Test(arguments: Lock.allCases)
    func `a class stays locked if a lock comes between its creation and its storing`(lock: Lock)
        async throws
    {
        let directory = try TemporaryDirectory()
        let container = try await container(directory)
        let prepared = try await container.prepare(
            gated, for: prompt, authorizedBy: ScriptedPresence(pins: "2468"))
        await lock(container)
        try await container.open(.device, for: prompt, authorizedBy: NobodyPresent())
        let put = RecordChange.put(
            Record(id: "a", kind: "note", protection: gated), payload: SecretBytes([7]),
            ifGeneration: 0)
        #expect(throws: wrongState) { try container.applyNow([put], classes: [.add(prepared)]) }
        #expect(try await container.metadata("a") == nil)
        #expect(container.session(gated) == nil)
    }

    @Test(arguments: Lock.allCases)
    func `a class is not created if a lock comes during the prompt`(lock: Lock) async throws {
        let directory = try TemporaryDirectory()
        let container = try await container(directory)
        let presence = InterruptedPresence(pin: "2468") { await lock(container) }
        await #expect(throws: cancelled) {
            try await container.prepare(gated, for: prompt, authorizedBy: presence)
        }
    }

    @Test(arguments: Lock.allCases)
    func `a class stays locked if a lock comes during its prompt`(lock: Lock) async throws {
        let directory = try TemporaryDirectory()
        let container = try await container(directory)
        let put = RecordChange.put(
            Record(id: "a", kind: "note", protection: gated), payload: SecretBytes([7]),
            ifGeneration: 0)
        try await container.apply([put], for: prompt, authorizedBy: ScriptedPresence(pins: "2468"))
        await container.lock()
        let presence = InterruptedPresence(pin: "2468") { await lock(container) }
        await #expect(throws: cancelled) {
            try await container.open(gated, for: prompt, authorizedBy: presence)
        }
        #expect(container.session(gated) == nil)
        try await container.prove(gated, for: prompt, authorizedBy: presence)
        // The proof came before the lock, and is not valid after it.
        await #expect(throws: unavailable) {
            try await container.open(gated, for: prompt, authorizedBy: NobodyPresent())
        }
    }

    private func container(
        _ directory: TemporaryDirectory, _ clock: InterruptedClock = InterruptedClock()
    ) async throws -> RecordContainer {
        let store = try await RecordStore(directory: directory.path, now: { clock.now })
        return try RecordContainer(
            store: store, keystore: TPMKeystore(tcti: SoftwareTPM.current.tcti, anchors: store))
    }
}

/// A clock that runs a closure when it is read.
private final class InterruptedClock: Sendable {
    private let interruption = Mutex<(@Sendable () -> Void)?>(nil)
    private let interrupted = Mutex(false)

    var wasInterrupted: Bool { interrupted.withLock { $0 } }

    func interrupt(_ body: @escaping @Sendable () -> Void) {
        interruption.withLock { $0 = body }
    }

    var now: Date {
        let body = interruption.withLock { interruption in
            defer { interruption = nil }
            return interruption
        }
        if let body {
            body()
            interrupted.withLock { $0 = true }
        }
        return Date()
    }
}

/// An authority with the PIN that runs a closure before it answers.
private struct InterruptedPresence: PresenceAuthority {
    let pin: String
    let interruption: @Sendable () async -> Void

    init(pin: String, _ interruption: @escaping @Sendable () async -> Void) {
        self.pin = pin
        self.interruption = interruption
    }

    func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        await interruption()
        return try await ScriptedPresence(pins: pin).pin(request)
    }
}
