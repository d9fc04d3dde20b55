import Foundation
import Glibc
import Latchkey
import LatchkeyPresence
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Forged messages of other programs, broadcast or addressed to one client. The bus delivers them
/// even without a subscription.
@Suite(
    .requires(program: "dbus-daemon"), .requires(program: "fprintd-enroll"),
    .requires(program: "gdbus"),
    .requires(program: "setpriv"), .softwareTPM, .virtualFinger)
struct ImpostorTests {
    private static let fprintd = "net.reactivated.Fprint"
    private static let device = "/net/reactivated/Fprint/Device/0"

    /// The unique names of the broker and of fprintd, and a malicious program.
    private func parts(_ scene: BrokerScene) async throws -> (
        stranger: Stranger, broker: String, fprintd: String
    ) {
        let stranger = Stranger(on: scene.reader.busAddress)
        let broker = try await stranger.owner(of: PresenceWire.name)
        let fprintd = try await stranger.owner(of: Self.fprintd)
        try #require(broker.hasPrefix(":") && fprintd.hasPrefix(":"))
        return (stranger, broker, fprintd)
    }

    @Test func `a match that another program reports is ignored`() async throws {
        try await BrokerScene.with { scene in
            let key = try await scene.key(.biometryAny)
            let (stranger, broker, _) = try await parts(scene)
            let waiting = Task { try await scene.refusal(key) }
            try await scene.progress.wait(for: .waiting)
            for destination in [nil, broker] {
                let complaint = try await stranger.emit(
                    "\(Self.fprintd).Device.VerifyStatus", from: Self.device, "verify-match",
                    "true",
                    to: destination)
                #expect(complaint == "")
            }
            // The bus delivers the forged signals before those of this finger.
            try await scene.reader.present(.finger("another's"))
            #expect(try await waiting.value?.code == .wrongProof)
            #expect(!scene.progress.words.contains(.matched))
            try await scene.sign(key, showing: .finger("mine"))
        }
    }

    @Test func `only the bus reports that fprintd or the caller has left`() async throws {
        try await BrokerScene.with { scene in
            let key = try await scene.key(.biometryAny)
            let (stranger, broker, fprintd) = try await parts(scene)
            let names = try await [Self.fprintd] + stranger.names()
            async let signature = scene.sign(key)
            try await scene.progress.wait(for: .waiting)
            for name in names {
                let complaint = try await stranger.emit(
                    "org.freedesktop.DBus.NameOwnerChanged", from: "/org/freedesktop/DBus", name,
                    name == Self.fprintd ? fprintd : name, "", to: broker)
                #expect(complaint == "")
            }
            try await scene.reader.present(.finger("mine"))
            #expect(key.publicKey.isValid(try await signature, for: BrokerScene.digest))
            #expect(scene.progress.words == [.waiting, .matched])
        }
    }

    @Test func `only fprintd reports that a finger was enrolled`() async throws {
        try await BrokerScene.with(seesPrints: false) { scene in
            let key = try await scene.key(.biometryCurrentSet)
            let (stranger, broker, _) = try await parts(scene)
            for destination in [nil, broker] {
                let complaint = try await stranger.emit(
                    "\(Self.fprintd).Device.EnrollStatus", from: Self.device, "enroll-completed",
                    "true",
                    to: destination)
                #expect(complaint == "")
            }
            try await scene.sign(key, showing: .finger("mine"))
        }
    }

    @Test func `only the service's own signals are reported`() async throws {
        try await BrokerScene.with { scene in
            let key = try await scene.key(.biometryAny)
            let desktop = try await scene.client.prompts()
            let (stranger, broker, _) = try await parts(scene)
            let destinations = try await [nil] + stranger.names().filter { $0 != broker }
            async let signature = scene.sign(key)
            try await scene.progress.wait(for: .waiting)
            for destination in destinations {
                let complaint = try await stranger.emit(
                    "\(PresenceWire.interface).Progress", from: PresenceWire.path, "withdrawn",
                    "all is well",
                    to: destination)
                #expect(complaint == "")
            }
            try await scene.reader.present(.finger("mine"))
            _ = try await signature
            #expect(scene.progress.words == [.waiting, .matched])
            #expect(try await desktop.progress(upTo: .matched) == [.waiting, .matched])
        }
    }

    @Test func `a subscriber gets the prompts of a restarted broker`() async throws {
        try await BrokerScene.with { scene in
            let key = try await scene.key(.biometryAny)
            let desktop = try await scene.client.prompts()
            await scene.broker.stop(SIGKILL)
            try await scene.broker.start()
            // The desktop subscribes again after it has seen the new broker, which may be after the
            // first signature.
            for _ in 0..<3 { try await scene.sign(key, showing: .finger("mine")) }
            try await desktop.progress(upTo: .matched)
        }
    }

    @Test func `a caller that leaves frees the reader`() async throws {
        try await BrokerScene.with { scene in
            let key = try await scene.key(.biometryAny)
            let desktop = try await scene.client.prompts()
            let bytes = "[" + Array(repeating: "byte 1", count: 32).joined(separator: ", ") + "]"
            // A Name begins with its hash algorithm, SHA-256 (TPM 2.0 Part 1 section 16).
            let name = "[byte 0, byte 11, " + bytes.dropFirst()
            let caller = try RunningProgram(
                URL(filePath: "/usr/bin/gdbus"),
                [
                    "call", "--address", scene.reader.busAddress, "--dest", PresenceWire.name,
                    "--object-path",
                    PresenceWire.path, "--method", "\(PresenceWire.interface).Approve", "sign",
                    name, bytes, bytes,
                    "biometry-any", "0", "vanish", "tests",
                ])
            try await desktop.progress(upTo: .withdrawn) { prompt in
                if prompt.progress == .waiting { await caller.stop(SIGKILL) }
            }
            try await scene.sign(key, showing: .finger("mine"))
        }
    }

    @Test func `the service describes itself`() async throws {
        try await BrokerScene.with(enrolled: []) { scene in
            let introspection = try RunningProgram(
                URL(filePath: "/usr/bin/gdbus"),
                [
                    "introspect", "--address", scene.reader.busAddress, "--dest",
                    "org.latchkey.Presence1",
                    "--object-path", "/org/latchkey/Presence1",
                ])
            let text = await introspection.remainder().output
            for member in [
                "State(", "Terms(", "Approve(", "Evaluate(", "Cancel(", "MakePIN(", "ResetPIN(",
                "Subscribe(", "Users(", "Forget(",
                "Progress(",
            ] {
                #expect(text.contains(member), "\(member)")
            }
            #expect(text.contains("readonly u Version = 1"))
        }
    }
}
