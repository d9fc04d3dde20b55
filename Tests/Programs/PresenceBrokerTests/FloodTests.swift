import Foundation
import Glibc
import Latchkey
import LatchkeyPresence
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import LatchkeyTPM

/// A program that sends too many requests.
@Suite(
    .requires(program: "dbus-daemon"), .requires(program: "fprintd-enroll"),
    .requires(program: "gdbus"),
    .requires(program: "setpriv"), .requires(program: "python3"),
    .enabled(if: geteuid() == 0, "needs root, to become another user"), .softwareTPM,
    .virtualFinger)
struct FloodTests {
    @Test func `calls of any kind have limits, each user's their own`() async throws {
        try await BrokerScene.with(enrolled: []) { scene in
            let bus = try await Bus.system(at: scene.reader.busAddress)
            let errors = await withTaskGroup { group in
                for _ in 0..<100 {
                    group.addTask {
                        do throws(BusError) {
                            _ = try await bus.call(
                                PresenceWire.target(.terms), [.string("pin"), .uint32(0)],
                                timeout: hangLimit)
                            return ""
                        } catch {
                            return error.name
                        }
                    }
                }
                return await group.reduce(into: [:]) { $0[$1, default: 0] += 1 } as [String: Int]
            }
            #expect(Set(errors.keys).isSubset(of: ["", Self.limits, Self.transient]))
            #expect(errors["", default: 0] >= 4)
            #expect(errors["", default: 0] <= 120)
            #expect(errors[Self.limits, default: 0] > 0, "many at once from one client: \(errors)")
            for _ in 0..<120 { _ = await error(of: bus, .subscribe) }
            #expect(
                await error(of: bus, .state) == Self.transient, "120 calls in a minute are enough")
            for method in [PresenceWire.Method.terms, .makePIN, .resetPIN, .subscribe] {
                #expect(await error(of: bus, method) == Self.transient)
            }
            #expect(await error(of: bus, .cancel).isEmpty)
            let other = try await Stranger(on: scene.reader.busAddress).call("State")
            #expect(other.text.contains("not-enrolled"), "\(other.text)")
        }
    }

    @Test func `one user's many connections do not keep another user's new key from the PIN index`()
        async throws
    {
        try await BrokerScene.with(enrolled: []) { scene in
            let flood = try await Flood(bus: scene.reader.busAddress).started(
                .connections, connections: 200)
            for _ in 0..<20 {
                _ = try await Self.patiently { try await scene.client.terms(for: .pin) }
            }
            let key = try await Self.patiently {
                try await scene.key(
                    .pin, ScriptedPresence([.pin("123456")], broker: scene.client))
            }
            let blob = try TPMKeyBlob(key.blob)
            #expect(blob.protection.userPIN != nil)
            await flood.stop(SIGKILL)
        }
    }

    @Test func `messages that are too long are refused without using memory`() async throws {
        try await BrokerScene.with(enrolled: []) { scene in
            try await Flood(bus: scene.reader.busAddress).run(.long, connections: 8)
            // The unit limits memory to 128 MiB, and the kernel kills the service above that.
            #expect(try await memory("VmHWM:", of: scene.broker) < 128 << 10)
            #expect(
                try await Stranger(on: scene.reader.busAddress).call("State").text.contains(
                    "not-enrolled"))
        }
    }

    @Test func `a client that does not read gets few answers`() async throws {
        try await BrokerScene.with(enrolled: []) { scene in
            let answers = try await Flood(bus: scene.reader.busAddress).answers(connections: 40)
            // A minute may end during the flood. The calls of a client that is not known yet count
            // separately.
            #expect((1...3 * (120 + 240)).contains(answers))
        }
    }

    @Test(arguments: [Flood.Kind.unread, .noReply])
    func `a client that does not read costs no memory, and others are served`(kind: Flood.Kind)
        async throws
    {
        try await BrokerScene.with(enrolled: []) { scene in
            let flood = try await Flood(bus: scene.reader.busAddress).started(kind, connections: 40)
            for _ in 0..<20 {
                _ = try await scene.client.terms(for: .pin)
                // In kilobytes. Without a flood it is 4 MB.
                #expect(try await memory("RssAnon:", of: scene.broker) < 16 << 10)
            }
            await flood.stop(SIGKILL)
        }
    }

    /// The bus takes no messages while the broker's unread messages exceed a limit, which needs
    /// hours. Here it is suspended.
    @Test
    func `a broker whose messages the bus does not take ends, and a new one serves others`()
        async throws
    {
        let tpm = try SoftwareTPM.current
        try await SystemBus.withRunning(as: geteuid()) { address in
            let broker = try await PresenceBrokerProcess(
                BrokerScene.program, tcti: tpm.tcti, busAddress: address)
            let said = try await Stranger(on: address).askBus(
                "GetConnectionUnixProcessID", "org.freedesktop.DBus")
            let daemon = try #require(
                said.text.firstMatch(of: #/uint32 (\d+)/#).flatMap { Int32($0.1) }, "\(said.text)")
            let client = SystemPresenceBroker(busAddress: address)
            _ = try await client.terms(for: .pin)
            let status = Task { await broker.waitForEnd() }
            // On a busy machine, the check after a call can end before the bus is suspended.
            for _ in 0..<7 {
                kill(daemon, SIGSTOP)
                let isOver = await poll(for: hangLimit / 7) {
                    await broker.processIdentifier == nil
                }
                kill(daemon, SIGCONT)
                if isOver { break }
                _ = try? await client.terms(for: .pin)
            }
            #expect(await status.value == 7, "systemd starts it again")
            try await broker.start()
            _ = try await client.terms(for: .pin)
            await broker.stop(SIGKILL)
        }
    }

    @Test func `file descriptors are not delivered, so no program can exhaust them`() async throws {
        try await BrokerScene.with(enrolled: []) { scene in
            let process = try #require(await scene.broker.processIdentifier)
            // systemd's limit for services. The tests' own limit may be higher.
            let limit = try RunningProgram(
                URL(filePath: "/usr/bin/prlimit"), ["--pid", "\(process)", "--nofile=1024:1024"])
            try #require(await limit.wait() == 0)
            try await Flood(bus: scene.reader.busAddress).run(.descriptors, connections: 80)
            #expect(
                try await Stranger(on: scene.reader.busAddress).call("State").text.contains(
                    "not-enrolled"))
            #expect(kill(process, 0) == 0, "the broker ended")
        }
    }

    /// Repeats a call that the bus, which gets a part of a busy processor, delivers too late.
    private static func patiently<R>(_ call: () async throws -> R) async throws -> R {
        let deadline = ContinuousClock.now + hangLimit
        while true {
            do { return try await call() } catch let error as KeystoreError
                where error.reason == "the presence broker did not answer"
                && ContinuousClock.now < deadline
            {
                continue
            }
        }
    }

    /// A measure of the kernel (proc_pid_status(5)) in kilobytes.
    private func memory(_ measure: String, of broker: PresenceBrokerProcess) async throws -> Int {
        let process = try #require(await broker.processIdentifier)
        let status = try String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)
        let line = try #require(status.split(separator: "\n").first { $0.hasPrefix(measure) })
        return try #require(line.split(whereSeparator: { !$0.isNumber }).first.flatMap { Int($0) })
    }

    private static let limits = "org.freedesktop.DBus.Error.LimitsExceeded"
    private static let transient = "org.latchkey.Presence1.Error.Transient"

    /// The name of a call's error; empty if it succeeds.
    private func error(of bus: Bus, _ method: PresenceWire.Method) async -> String {
        do throws(BusError) {
            _ = try await bus.call(PresenceWire.target(method))
            return ""
        } catch {
            return error.name
        }
    }
}
