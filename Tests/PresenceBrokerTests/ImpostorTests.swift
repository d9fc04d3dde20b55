import Foundation
import Latchkey
import LatchkeyPresence
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// Others on the bus say things too.
@Suite(
    .requires(program: "dbus-daemon"), .requires(program: "fprintd-enroll"), .requires(program: "gdbus"), .softwareTPM,
    .virtualFinger)
struct ImpostorTests {
    @Test func `a match that another program says it saw is none`() async throws {
        try await BrokerScene.with(timeLimit: 3) { scene in
            let key = try await scene.key(.biometryAny)
            let waiting = Task { try await scene.refusal(key) }
            try await scene.progress.wait(for: .waiting)
            for _ in 0..<3 {
                let impostor = try ChildProcess(
                    URL(filePath: "/usr/bin/gdbus"),
                    [
                        "emit", "--address", scene.reader.busAddress, "--object-path",
                        "/net/reactivated/Fprint/Device/0", "--signal", "net.reactivated.Fprint.Device.VerifyStatus",
                        "verify-match", "true",
                    ])
                #expect(await impostor.wait() == 0)
            }
            #expect(try await waiting.value?.code == .cancelled)
            #expect(!scene.progress.words.contains(.matched))
            try await scene.sign(key, showing: .finger("mine"))
        }
    }

    @Test func `only the service's own signals are told`() async throws {
        try await BrokerScene.with(timeLimit: 2) { scene in
            let key = try await scene.key(.biometryAny)
            let waiting = Task { try await scene.refusal(key) }
            try await scene.progress.wait(for: .waiting)
            let impostor = try ChildProcess(
                URL(filePath: "/usr/bin/gdbus"),
                [
                    "emit", "--address", scene.reader.busAddress, "--object-path", "/org/latchkey/Presence1",
                    "--signal",
                    "org.latchkey.Presence1.Progress", "matched", "all is well",
                ])
            #expect(await impostor.wait() == 0)
            _ = try await waiting.value
            #expect(!scene.progress.words.contains(.matched))
        }
    }

    @Test func `the service describes itself`() async throws {
        try await BrokerScene.with(enrolled: []) { scene in
            let introspection = try ChildProcess(
                URL(filePath: "/usr/bin/gdbus"),
                [
                    "introspect", "--address", scene.reader.busAddress, "--dest", "org.latchkey.Presence1",
                    "--object-path", "/org/latchkey/Presence1",
                ])
            let text = await introspection.remainder().output
            for member in [
                "State(", "Terms(", "Approve(", "Cancel(", "MakePIN(", "ResetPIN(", "Subscribe(", "Progress(",
            ] {
                #expect(text.contains(member), "\(member)")
            }
            #expect(text.contains("readonly u Version = 1"))
        }
    }
}
