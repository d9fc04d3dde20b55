import Foundation
import Glibc
import Latchkey
import LatchkeyPresence
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import TPM2
import Testing

/// A broker in a separate process, and a client in this one: the test's bus, fprintd, reader and
/// TPM.
struct BrokerScene {
    static let program = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: ".build/debug/latchkey-presenced")
    static let prompt = PromptContext(reason: "test a finger", container: "tests")
    static let digest = MessageDigest(sha256: Array("a message".utf8))
    /// The user that runs the tests.
    static let user = NSUserName()

    let reader: VirtualFingerprintReader
    let tpm: SoftwareTPM
    let broker: PresenceBrokerProcess
    let client: SystemPresenceBroker
    let keystore: TPMKeystore
    let progress: ProgressLog

    /// - Parameters:
    /// - fingers: The user's enrolled fingers.
    /// - service: The user that runs the broker; see ``PresenceBrokerProcess``.
    static func with(
        timeLimit: Int = PresenceBrokerProcess.longestTimeLimit,
        enrolled fingers: [String] = ["mine"],
        seesPrints: Bool = true, as service: UInt32? = nil,
        _ body: (BrokerScene) async throws -> Void
    ) async throws {
        let (reader, tpm) = (try VirtualFingerprintReader.current, try SoftwareTPM.current)
        for (finger, place) in zip(fingers, VirtualFingerprintReader.Finger.allCases) {
            try await reader.enroll(place, as: finger, for: user)
        }
        if service != nil { openToEverybody(tpm) }
        let broker = try await PresenceBrokerProcess(
            program, tcti: tpm.tcti, busAddress: reader.busAddress, timeLimit: timeLimit,
            prints: seesPrints ? reader.printsDirectory : nil, as: service)
        let log = ProgressLog()
        let client = SystemPresenceBroker(busAddress: reader.busAddress) { log.append($0, $1) }
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(
                try await body(
                    BrokerScene(
                        reader: reader, tpm: tpm, broker: broker, client: client,
                        keystore: TPMKeystore(tcti: tpm.tcti, anchors: MemoryTrustAnchors()),
                        log: log)))
        } catch {
            outcome = .failure(error)
        }
        await broker.stop(SIGKILL)
        try outcome.get()
    }

    /// Gives a service that is not root access to the TPM, like the group of the machine's device.
    static func openToEverybody(_ tpm: SoftwareTPM) {
        guard let path = tpm.tcti.split(separator: "=").last else { return }
        // The sockets for commands and for the TPM's control channel.
        for socket in [String(path), "\(path).ctrl"] { chmod(socket, 0o666) }
    }

    private init(
        reader: VirtualFingerprintReader, tpm: SoftwareTPM, broker: PresenceBrokerProcess,
        client: SystemPresenceBroker, keystore: TPMKeystore, log: ProgressLog
    ) {
        (self.reader, self.tpm, self.broker, self.client, self.keystore) = (
            reader, tpm, broker, client, keystore
        )
        progress = log
    }

    var presence: ScriptedPresence { ScriptedPresence([], broker: client) }

    func key(_ policy: AccessPolicy, _ presence: ScriptedPresence? = nil) async throws
        -> HardwareKey
    {
        try await keystore.createKey(
            KeyRequest(policy: policy, prompt: Self.prompt), authorizedBy: presence ?? self.presence
        )
    }

    /// Signs during these events at the reader.
    @discardableResult
    func sign(
        _ key: HardwareKey, _ presence: ScriptedPresence? = nil,
        showing touches: VirtualFingerprintReader.Touch...
    ) async throws -> ECDSASignature {
        async let shown: Void = show(touches)
        let result: Result<ECDSASignature, KeystoreError>
        do throws(KeystoreError) {
            result = .success(
                try await keystore.sign(
                    Self.digest, with: key, for: Self.prompt,
                    authorizedBy: presence ?? self.presence))
        } catch {
            result = .failure(error)
        }
        try await shown
        return try result.get()
    }

    /// The error with which ``sign(_:_:showing:)`` ends.
    func refusal(
        _ key: HardwareKey, _ presence: ScriptedPresence? = nil,
        showing touch: VirtualFingerprintReader.Touch? = nil
    ) async throws -> KeystoreError? {
        do {
            if let touch {
                try await sign(key, presence, showing: touch)
            } else {
                try await sign(key, presence)
            }
            return nil
        } catch let error as KeystoreError {
            return error
        }
    }

    private func show(_ touches: [VirtualFingerprintReader.Touch]) async throws {
        for touch in touches { try await reader.present(touch) }
    }
}

/// The messages for the user.
final class ProgressLog: Sendable {
    private let entries = Mutex<[(FingerProgress, String)]>([])

    var words: [FingerProgress] { entries.withLock { $0.map(\.0) } }
    var prompts: [String] { entries.withLock { $0.map(\.1) } }
    func append(_ progress: FingerProgress, _ prompt: String) {
        entries.withLock { $0.append((progress, prompt)) }
    }

    /// Waits until a message was sent the given number of times.
    func wait(for progress: FingerProgress, times: Int = 1) async throws {
        try #require(
            await poll { words.count(where: { $0 == progress }) >= times },
            "the broker did not report \(progress)")
    }
}

extension AsyncStream<PresencePrompt> {
    /// The progress of the prompts up to and including the first `last`.
    ///
    /// - Throws: An error if `last` does not come, or the stream ends earlier.
    @discardableResult
    func progress(
        upTo last: FingerProgress,
        onEach: @escaping @Sendable (PresencePrompt) async -> Void = { _ in }
    ) async throws -> [FingerProgress] {
        let reading = Task {
            var seen: [FingerProgress] = []
            for await prompt in self {
                await onEach(prompt)
                seen.append(prompt.progress)
                if prompt.progress == last { break }
            }
            return seen
        }
        let deadline = Task {
            try await Task.sleep(for: hangLimit)
            reading.cancel()
        }
        defer { deadline.cancel() }
        let seen = await reading.value
        try #require(seen.last == last, "the broker reported \(seen)")
        return seen
    }
}
