import Foundation
import Glibc
import Latchkey
import LatchkeyPresence
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// A broker that ends at a time that an attacker chooses: the fingers that did not match stay
/// counted.
@Suite(
    .requires(program: "dbus-daemon"), .requires(program: "fprintd-enroll"),
    .requires(program: "gdbus"), .softwareTPM,
    .virtualFinger)
struct RestartTests {
    private func showWrongFinger(
        _ key: HardwareKey, _ scene: BrokerScene, times: Int
    ) async throws {
        for _ in 0..<times {
            #expect(
                try await scene.refusal(key, showing: .finger("another's"))?.code == .wrongProof)
        }
    }

    private func restart(_ scene: BrokerScene) async throws {
        await scene.broker.stop(SIGKILL)
        try await scene.broker.start()
    }

    @Test func `a killed broker gives no new attempts`() async throws {
        try await BrokerScene.with { scene in
            let key = try await scene.key(.biometryAny)
            try await showWrongFinger(key, scene, times: 4)
            try await restart(scene)
            try await showWrongFinger(key, scene, times: 1)
            #expect(try await scene.refusal(key)?.code == .lockedOut)
            try await restart(scene)
            #expect(try await scene.refusal(key)?.code == .lockedOut)
            guard case .lockedOut(let until?) = await scene.client.fingerState() else {
                Issue.record("the state does not say so")
                return
            }
            #expect((1...61).contains(until.timeIntervalSinceNow), "rounded up")
        }
    }

    @Test func `a broker that is killed during a verification counts it as failed`() async throws {
        try await BrokerScene.with { scene in
            let key = try await scene.key(.biometryAny)
            try await showWrongFinger(key, scene, times: 4)
            let before = scene.progress.words.count { $0 == .waiting }
            let waiting = Task { try await scene.refusal(key) }
            try await scene.progress.wait(for: .waiting, times: before + 1)
            try await restart(scene)
            #expect(try await waiting.value?.code == .transient)
            #expect(try await scene.refusal(key)?.code == .lockedOut)
        }
    }

    @Test func `a verification without a result does not count`() async throws {
        try await BrokerScene.with { scene in
            let key = try await scene.key(.biometryAny)
            try await showWrongFinger(key, scene, times: 4)
            let before = scene.progress.words.count { $0 == .waiting }
            let waiting = Task { try await scene.refusal(key) }
            try await scene.progress.wait(for: .waiting, times: before + 1)
            waiting.cancel()
            #expect(try await waiting.value?.code == .cancelled)
            // The reader is stopped first.
            let state = "\(scene.broker.stateDirectory.path)/authority.json"
            try #require(
                await poll {
                    try String(contentsOfFile: state, encoding: .utf8).contains(
                        "\"isUnderWay\":false")
                })
            try await restart(scene)
            #expect(await scene.client.fingerState() == .ready)
            try await showWrongFinger(key, scene, times: 1)
            #expect(try await scene.refusal(key)?.code == .lockedOut, "the fifth")
        }
    }

    @Test func `without a written count no finger is verified, and none of a damaged one`()
        async throws
    {
        try await BrokerScene.with { scene in
            let key = try await scene.key(.biometryAny)
            let state = "\(scene.broker.stateDirectory.path)/authority.json"
            // The name of the new file, which a rename makes the state.
            try FileManager.default.createDirectory(
                atPath: "\(state).new", withIntermediateDirectories: false)
            let error = try await scene.refusal(key)
            #expect(error?.code == .unavailable)
            #expect(error?.reason == "the presence broker cannot store the count of fingers")
            #expect(scene.progress.words.isEmpty, "no finger is requested")
            try FileManager.default.removeItem(atPath: "\(state).new")
            try await scene.sign(key, showing: .finger("mine"))

            await scene.broker.stop(SIGKILL)
            let text = try String(contentsOfFile: state, encoding: .utf8)
            try #require(text.contains("\"failures\":0"))
            try text.replacing("\"failures\":0", with: "\"failures\":\"\"")
                .write(toFile: state, atomically: false, encoding: .utf8)
            let damaged = try RunningProgram(
                URL(filePath: "/usr/bin/env"),
                [
                    "DBUS_SYSTEM_BUS_ADDRESS=\(scene.reader.busAddress)",
                    "LATCHKEY_TCTI=\(scene.tpm.tcti)",
                    "STATE_DIRECTORY=\(scene.broker.stateDirectory.path)",
                    BrokerScene.program.path,
                ])
            #expect(await damaged.wait() == 8)
        }
    }
}
