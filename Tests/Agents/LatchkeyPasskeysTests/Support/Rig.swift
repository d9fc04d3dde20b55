import Crypto
import FoundationEssentials
import Latchkey
import LatchkeyPasskeys
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import TPM2
import TPM2TCTI
import Testing

@testable import LatchkeyPasskeys

/// An authenticator on the test's software TPM, and requests of a client that does not use a library.
struct Rig: Sendable {
    let prompt: ScriptedPrompt
    let keystore: TPMKeystore
    let records: RecordContainer
    let store: PasskeyStore
    let authenticator: Authenticator
    let counter: CommandCounter
    let clock: ManualClock
    let openers: Openers

    static func with(
        _ prompt: ScriptedPrompt = ScriptedPrompt(), policy: AccessPolicy? = .pin,
        clock: ManualClock = ManualClock(),
        _ body: (Rig) async throws -> Void
    ) async throws {
        let tpm = try SoftwareTPM.current
        try await TemporaryDirectory.withDirectory { directory in
            let counter = CommandCounter()
            let tcti = tpm.tcti
            let keystore = TPMKeystore(anchors: MemoryTrustAnchors()) { () throws(TPMError) in
                CountingTransport(counter, try TCTIConnection(tcti))
            }
            let records = try RecordContainer(
                name: "passkeys", store: try await RecordStore(directory: directory.path),
                keystore: keystore)
            let store = PasskeyStore(records: records)
            try await store.open()
            let openers = Openers()
            let engine = PasskeyEngine(
                keystore: keystore, store: store, prompt: prompt, policy: { policy },
                clock: clock.clock, openers: { openers.now })
            try await body(
                Rig(
                    prompt: prompt, keystore: keystore, records: records, store: store,
                    authenticator: Authenticator(engine, aaguid: .software), counter: counter,
                    clock: clock, openers: openers))
        }
    }

    static let hash = Array(SHA256.hash(data: Array("client data".utf8)))

    static func registration(
        site: String = "example.org", user: String = "ada", rk: Bool = true,
        changes: [CBORKey: CBORValue] = [:]
    ) -> [UInt8] {
        var members: [CBORKey: CBORValue] = [
            1: .bytes(hash), 2: .map(["id": .text(site), "name": .text("Example")]),
            3: .map([
                "id": .bytes(Array(user.utf8)), "name": .text(user), "displayName": .text("Ada"),
            ]),
            4: .array([
                .map(["alg": .integer(-7), "type": .text("other")]),
                .map(["alg": .integer(-257), "type": .text("public-key")]),
                .map(["alg": .integer(-7), "type": .text("public-key")]),
            ]),
            7: .map(["rk": .boolean(rk), "uv": .boolean(true)]),
        ]
        members.merge(changes) { $1 }
        return [1] + CBORValue.map(members).encoded
    }

    static func assertion(site: String = "example.org", changes: [CBORKey: CBORValue] = [:])
        -> [UInt8]
    {
        var members: [CBORKey: CBORValue] = [
            1: .text(site), 2: .bytes(hash), 5: .map(["uv": .boolean(true)]),
        ]
        members.merge(changes) { $1 }
        return [2] + CBORValue.map(members).encoded
    }

    static func list(_ ids: [UInt8]...) -> CBORValue {
        .array(ids.map { .map(["id": .bytes($0), "type": .text("public-key")]) })
    }

    /// The map of a successful answer. The time since the last prompt has passed.
    func ask(_ request: [UInt8]) async throws -> [CBORKey: CBORValue] {
        clock.advance(by: PromptLimit.pauseTime)
        let answer = await authenticator.respond(to: request)
        try #require(answer.first == 0, "status \(String(answer.first ?? 255, radix: 16))")
        guard answer.count > 1 else { return [:] }
        let value = try CBORReader.read(answer[1...], limits: .ctap)
        #expect(value.encoded == Array(answer[1...]), "the answer is canonical")
        return try #require(value.map)
    }

    func status(_ request: [UInt8]) async -> UInt8? {
        clock.advance(by: PromptLimit.pauseTime)
        return await authenticator.respond(to: request).first
    }

    /// Sends a request, and cancels it when it waits for the user. A request that
    /// gets no prompt has another status than 0x2D, unless it is held.
    func cancelled(_ request: [UInt8]) async -> UInt8 {
        clock.advance(by: PromptLimit.pauseTime)
        let (reports, report) = AsyncStream.makeStream(of: KeepaliveStatus.self)
        let before = prompt.questions.count
        let task = Task {
            defer { report.finish() }
            return await authenticator.respond(to: request) {
                report.yield($0)
            } holding: {
                report.finish()
            }
        }
        for await _ in reports {
            #expect(await poll { prompt.questions.count > before })
            break
        }
        task.cancel()
        return await task.value.first ?? 0xFF
    }

    /// The credential's ID and public key in authenticator data.
    static func credential(_ data: [UInt8]) throws -> (
        id: [UInt8], key: PublicKey, extensions: CBORValue?
    ) {
        try #require(data.count > 55)
        let count = Int(data[53]) << 8 | Int(data[54])
        let id = Array(data[55..<(55 + count)])
        // A COSE key of ES256 has 77 bytes.
        let cose = try #require(
            try CBORReader.read(data[(55 + count)..<(55 + count + 77)], limits: .ctap).map)
        let (x, y) = (try #require(cose[-2]?.bytes), try #require(cose[-3]?.bytes))
        let rest = data[(55 + count + 77)...]
        return (
            id, try PublicKey(x963Representation: Data([4] + x + y)),
            rest.isEmpty ? nil : try CBORReader.read(rest, limits: .ctap)
        )
    }

    static func isValid(_ der: [UInt8], _ key: PublicKey, _ data: [UInt8]) throws -> Bool {
        let signature = try P256.Signing.ECDSASignature(derRepresentation: der)
        return key.cryptoKey.isValidSignature(signature, for: SHA256.hash(data: data + hash))
    }
}

/// The programs that have opened the device.
final class Openers: Sendable {
    private let processes = Mutex<Set<Int32>>([1])

    var now: DeviceOpeners {
        DeviceOpeners(
            Dictionary(uniqueKeysWithValues: processes.withLock(\.self).map { ($0, "firefox") }))
    }

    func set(_ processes: Set<Int32>) { self.processes.withLock { $0 = processes } }
}

/// A clock that stands still until a test moves it.
final class ManualClock: Sendable {
    private struct State {
        var now = Duration.zero
        var sleepers: [(until: Duration, wake: AsyncStream<Void>.Continuation)] = []
    }

    private let state = Mutex(State())

    var clock: PasskeyClock {
        PasskeyClock(now: { self.state.withLock { $0.now } }) { until in
            let (wakes, wake) = AsyncStream.makeStream(of: Void.self)
            let isOver = self.state.withLock { state in
                guard until > state.now else { return true }
                state.sleepers.append((until, wake))
                return false
            }
            if isOver { return }
            for await _ in wakes { break }
            try Task.checkCancellation()
        }
    }

    /// The times until which tasks wait, or have waited before their cancellation.
    var sleepers: [Duration] { state.withLock { $0.sleepers.map(\.until) } }

    func advance(by duration: Duration) {
        let due = state.withLock { state in
            state.now += duration
            let now = state.now
            let due = state.sleepers.filter { $0.until <= now }
            state.sleepers.removeAll { $0.until <= now }
            return due
        }
        for sleeper in due { sleeper.wake.yield() }
    }
}

/// The commands that reach the TPM.
final class CommandCounter: Sendable {
    private let codes = Mutex<[TPMCommandCode]>([])

    var all: [TPMCommandCode] { codes.withLock { $0 } }
    func forget() { codes.withLock { $0 = [] } }
    func add(_ command: [UInt8]) {
        guard command.count >= 10 else { return }
        codes.withLock {
            $0.append(TPMCommandCode(rawValue: command[6..<10].reduce(0) { $0 << 8 | UInt32($1) }))
        }
    }
}

private final class CountingTransport: TPMTransport {
    private let counter: CommandCounter
    private let inner: any TPMTransport

    init(_ counter: CommandCounter, _ inner: any TPMTransport) {
        self.counter = counter
        self.inner = inner
    }

    func exchange(_ command: [UInt8]) throws(TPMError) -> [UInt8] {
        counter.add(command)
        return try inner.exchange(command)
    }

    func close() { inner.close() }
}
