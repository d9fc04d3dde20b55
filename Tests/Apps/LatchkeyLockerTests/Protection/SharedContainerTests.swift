import Foundation
import Latchkey
import LatchkeyLocker
import LatchkeyTesting
import Testing

/// A locker and other data with a PIN in one container, on a TPM. A token has one PIN for all.
@Suite(.softwareTPM)
struct SharedContainerTests {
    private let prompt = PromptContext(reason: "keep a note", container: "default")
    private let note = ProtectionClass(name: "note", policy: .pin)

    private func keep(
        _ payload: [UInt8], in records: RecordContainer, _ presence: ScriptedPresence
    ) async throws {
        try await records.apply(
            [
                .put(
                    Record(id: "a.note", kind: "note", protection: note),
                    payload: SecretBytes(payload), ifGeneration: 0
                )
            ],
            for: prompt, authorizedBy: presence)
    }

    private func keptNote(_ records: RecordContainer, pin: String) async throws -> SecretBytes? {
        await records.lock()
        return try await records.read(
            "a.note", for: prompt, authorizedBy: ScriptedPresence(pins: pin))?.payload
    }

    @Test func `the container's PIN and the locker's are separate, whichever is set first`()
        async throws
    {
        for isLockerFirst in [true, false] {
            try await Scene.with { scene in
                let program = try await scene.start(ScriptedPresence(pins: "2468", "2468"))
                let (locker, records) = (program.locker, program.locker.configuration.records)
                let owner = ScriptedPresence(pins: "1357")
                if isLockerFirst { _ = try await locker.startAuthSession() }
                try await keep([7], in: records, owner)
                #expect(owner.requests.map(\.purpose) == [.new])
                if !isLockerFirst { _ = try await locker.startAuthSession() }
                #expect(program.presence.requests.map(\.purpose) == [.new])
                _ = try await locker.endAuthSession(mode: .lock)
                #expect(try await locker.startAuthSession().phase == .activeViaEasyAccess)
                #expect(try await keptNote(records, pin: "1357") == SecretBytes([7]))
            }
        }
    }

    @Test
    func `changing the container's PIN keeps the locker's, also during a change of the locker's`()
        async throws
    {
        try await Scene.with { scene in
            let program = try await scene.start(ScriptedPresence(pins: "2468", "8642", "2468"))
            let (locker, records) = (program.locker, program.locker.configuration.records)
            _ = try await locker.startAuthSession()
            await #expect(throws: (any Error).self) {
                try await records.changePIN(
                    for: prompt, authorizedBy: ScriptedPresence(pins: "2468", "9999"))
            }
            try await keep([7], in: records, ScriptedPresence(pins: "1357"))
            // The server may have the new key, so a row keeps it.
            scene.line.fail(containing: "/easy-access", .lost)
            await #expect(throws: ErsteGroupAuthError.self) { try await locker.changeEasyAccess() }
            #expect(
                try await Disk(path: scene.databasePath).rows().contains {
                    $0.hasPrefix("locker.pending.")
                })

            let changed = try await records.changePIN(
                for: prompt, authorizedBy: ScriptedPresence(pins: "1357", "7531"))
            #expect(changed == 1)
            #expect(try await keptNote(records, pin: "7531") == SecretBytes([7]))
            _ = try await locker.endAuthSession(mode: .lock)
            #expect(try await locker.startAuthSession().phase == .activeViaEasyAccess)
        }
    }
}
