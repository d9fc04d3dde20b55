import Foundation
import Glibc
import Latchkey
import LatchkeyPresence
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import TPM2TCTI
import Testing

/// `latchkey-presenced`, killed at each of its effects: the first start, making and resetting a
/// user's PIN, and the first enrolment and later changes of fingers.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "dbus-daemon"),
    .timeLimit(.minutes(15)))
struct KillTests {
    /// A service that can be killed, with a separate state directory.
    private final class Service: Sendable {
        let state: TemporaryDirectory
        let bus: String
        let prints: String
        let tcti: String

        /// - Parameter prints: The directory of fprintd's files.
        init(bus: String, prints: String) throws {
            state = try TemporaryDirectory()
            (self.bus, self.prints) = (bus, prints)
            tcti = try SoftwareTPM.current.tcti
        }

        var client: SystemPresenceBroker { SystemPresenceBroker(busAddress: bus) }

        /// Starts the service and waits until it serves or ends.
        ///
        /// - Returns: nil if the service was killed before it served.
        func start(_ environment: [String: String] = [:]) async throws -> RunningProgram? {
            let variables = [
                "DBUS_SYSTEM_BUS_ADDRESS": bus, "LATCHKEY_TCTI": tcti,
                "STATE_DIRECTORY": state.path,
                "TSS2_LOG": "all+NONE",
            ].merging(environment) { $1 }
            let process = try RunningProgram(
                URL(filePath: "/usr/bin/env"),
                variables.map { "\($0)=\($1)" } + [BrokerScene.program.path, "--prints", prints])
            let deadline = ContinuousClock.now + hangLimit
            while kill(process.id, 0) == 0 {
                if (try? await client.terms(for: .pin)) != nil { return process }
                if ContinuousClock.now > deadline {
                    await process.stop(SIGKILL)
                    let errors = await process.remainder().errors
                    Issue.record("it neither serves nor ends: \(errors)")
                }
            }
            let (status, errors) = (await process.wait(), await process.remainder().errors)
            #expect(status == SIGKILL, "\(errors)")
            return nil
        }

        /// Starts the service, uses it, and ends it.
        func serve<R>(_ body: (SystemPresenceBroker) async throws -> R) async throws -> R {
            let process = try #require(try await start())
            let result: Result<R, any Error>
            do { result = .success(try await body(client)) } catch { result = .failure(error) }
            await process.stop(SIGKILL)
            return try result.get()
        }
    }

    private func visit(
        _ kind: StateChange, reader: VirtualFingerprintReader? = nil,
        prepare: @escaping (SystemPresenceBroker) async throws -> Void,
        change: @escaping (SystemPresenceBroker) async throws -> Void,
        check: @escaping (Service, KillPoints.Run) async throws -> Void
    ) async throws {
        func visit(_ bus: String) async throws {
            try await KillPoints.test(kind) { environment in
                try Self.clear()
                let service = try Service(bus: bus, prints: reader?.printsDirectory ?? "/nowhere")
                try await service.serve { try await prepare($0) }
                return (
                    service: service, process: try #require(try await service.start(environment))
                )
            } change: { running, _ in
                let (service, process) = running
                let failure: (any Error)?
                do {
                    try await change(service.client)
                    failure = nil
                } catch {
                    failure = error
                }
                // A killed service leaves the bus before its process ends.
                let status = await process.stop(failure == nil ? SIGKILL : SIGTERM)
                if let failure, status != SIGKILL { throw failure }
                return failure == nil
            } check: { running, life in
                try Self.flush()
                try await check(running.service, life)
            }
        }
        if let reader {
            try await visit(reader.busAddress)
        } else {
            try await SystemBus.withRunning(as: geteuid()) { try await visit($0) }
        }
    }

    /// A reader at which the tests' user has enrolled a finger.
    private func reader() async throws -> VirtualFingerprintReader {
        let reader = try VirtualFingerprintReader.current
        try await reader.enroll(.rightIndex, as: "mine", for: BrokerScene.user)
        return reader
    }

    @Test func `a first start makes one key, even if it is killed repeatedly`() async throws {
        try await SystemBus.withRunning(as: geteuid()) { bus in
            try await KillPoints.test(.brokerStart) { _ in
                try Self.clear()
                return try Service(bus: bus, prints: "/nowhere")
            } change: { service, environment in
                guard let process = try await service.start(environment) else { return false }
                await process.stop(SIGKILL)
                return true
            } check: { service, life in
                try Self.flush()
                let terms = try await service.serve { try await $0.terms(for: .pin) }
                let again = try await service.serve { try await $0.terms(for: .pin) }
                #expect(terms == again, "\(life)")
                #expect(terms.authorityHandle != nil, "\(life)")
                // The storage root key, and one approval key.
                #expect(try Self.handles(from: .persistentFirst).count == 2, "\(life)")
            }
        }
    }

    @Test func `a PIN is allocated once`() async throws {
        try await visit(.brokerPIN) { _ in
        } change: { broker in
            _ = try await broker.makeUserPIN()
        } check: { service, life in
            try await service.serve { broker in
                let presence = ScriptedPresence([.pin("2580"), .pin("2580")], broker: broker)
                let keystore = TPMKeystore(tcti: service.tcti, anchors: MemoryTrustAnchors())
                let key = try await keystore.createKey(
                    KeyRequest(policy: .pin, prompt: BrokerScene.prompt), authorizedBy: presence)
                #expect(key.assurance.pinProtection == .user, "\(life)")
                _ = try await keystore.sign(
                    BrokerScene.digest, with: key, for: BrokerScene.prompt, authorizedBy: presence)
            }
            #expect(try Self.handles(from: Self.firstIndex).count == 1, "\(life)")
        }
    }

    @Test(.virtualFinger, .requires(program: "fprintd-verify"))
    func `fingers that are enrolled for the first time have one counter`() async throws {
        try await visit(.brokerEnrolment, reader: reader()) { _ in
        } change: { broker in
            _ = try await broker.terms(for: .biometryCurrentSet)
        } check: { service, life in
            let terms = try await service.serve { try await $0.terms(for: .biometryCurrentSet) }
            let again = try await service.serve { try await $0.terms(for: .biometryCurrentSet) }
            #expect(terms.counter != nil && terms == again, "\(life)")
            #expect(try Self.handles(from: Self.firstIndex).count == 1, "\(life)")
        }
    }

    @Test(.virtualFinger, .requires(program: "fprintd-verify"))
    func `changed fingers invalidate the keys bound to them, once`() async throws {
        var counted: UInt64?
        let reader = try await reader()
        try await visit(.brokerEnrolmentChange, reader: reader) { broker in
            counted = try await broker.terms(for: .biometryCurrentSet).counter?.value
            // fprintd writes a new print if a finger is enrolled again.
            let folder = URL(filePath: "\(reader.printsDirectory)/\(BrokerScene.user)")
            for name in try FileManager.default.subpathsOfDirectory(atPath: folder.path()) {
                try FileManager.default.setAttributes(
                    [.modificationDate: Date()], ofItemAtPath: folder.appending(path: name).path())
            }
        } change: { broker in
            _ = try await broker.terms(for: .biometryCurrentSet)
        } check: { service, life in
            let terms = try await service.serve { try await $0.terms(for: .biometryCurrentSet) }
            let before = try #require(counted)
            #expect(try #require(terms.counter).value > before, "\(life)")
            let again = try await service.serve { try await $0.terms(for: .biometryCurrentSet) }
            #expect(terms == again, "\(life)")
            #expect(try Self.handles(from: Self.firstIndex).count == 1, "\(life)")
        }
    }

    @Test func `a PIN's count is reset or continues, and the PIN stays the same`() async throws {
        var key: HardwareKey?
        let tcti = try SoftwareTPM.current.tcti
        func sign(_ pin: String, _ broker: SystemPresenceBroker) async throws -> KeystoreError? {
            let keystore = TPMKeystore(tcti: tcti, anchors: MemoryTrustAnchors())
            let key = try #require(key)
            do throws(KeystoreError) {
                _ = try await keystore.sign(
                    BrokerScene.digest, with: key, for: BrokerScene.prompt,
                    authorizedBy: ScriptedPresence([.pin(pin)], broker: broker))
                return nil
            } catch {
                return error
            }
        }
        try await visit(.brokerPINReset) { broker in
            key = try await TPMKeystore(tcti: tcti, anchors: MemoryTrustAnchors()).createKey(
                KeyRequest(policy: .pin, prompt: BrokerScene.prompt),
                authorizedBy: ScriptedPresence([.pin("2580")], broker: broker))
            #expect(try await sign("0000", broker)?.attemptsLeft == 9)
        } change: { broker in
            try await broker.resetPIN(of: geteuid())
        } check: { service, life in
            try await service.serve { broker in
                let left = try await sign("0000", broker)?.attemptsLeft
                #expect(
                    left == 9 || left == 8 && life.killedBefore != nil,
                    "\(life): \(String(describing: left))")
                let failure = try await sign("2580", broker)
                #expect(failure == nil, "\(life)")
            }
        }
    }

    // MARK: The TPM

    /// `TPM_HT_NV_INDEX` (TPM 2.0 Part 2 section 7.2).
    private static let firstIndex = TPMHandle(rawValue: 0x0100_0000)

    private static func look<R>(_ body: (TPM) throws -> R) throws -> R {
        let connection = try TCTIConnection(try SoftwareTPM.current.tcti)
        defer { connection.close() }
        return try body(TPM(ResubmittingTransport(connection)))
    }

    private static func handles(from first: TPMHandle) throws -> [TPMHandle] {
        try look { try $0.handles(from: first) }
    }

    /// Flushes the objects that a killed service had loaded, as a resource manager does.
    private static func flush() throws {
        try look { tpm in
            for first in [TPMHandle.transientFirst, .loadedSessionFirst] {
                for handle in try tpm.handles(from: first) { try tpm.execute(FlushContext(handle)) }
            }
        }
    }

    /// Deletes the objects of earlier runs: a TPM2_Clear with platform authorization, as the
    /// firmware does it.
    private static func clear() throws {
        try flush()
        let connection = try TCTIConnection(try SoftwareTPM.current.tcti)
        defer { connection.close() }
        // TPM2_Clear (TPM 2.0 Part 3 section 24.6), authorized by the platform's empty password.
        let command: [UInt8] = [
            0x80, 0x02, 0, 0, 0, 27, 0, 0, 0x01, 0x26, 0x40, 0, 0, 0x0c, 0, 0, 0, 9, 0x40, 0, 0, 9,
            0, 0, 0, 0, 0,
        ]
        let response = try connection.exchange(command)
        try #require(response.dropFirst(6).prefix(4).elementsEqual([0, 0, 0, 0]), "\(response)")
    }
}
