import Foundation
import Latchkey
import LatchkeyLocker
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Destroying an enrolment.
@Suite(.softwareTPM, .softwareToken)
struct DestroyTests {
    private var isRevocation: (Line.Sent) -> Bool { { $0.path.hasSuffix("/revoke") } }

    @Test(arguments: SimulatedDevice.allCases)
    func `without a network everything is deleted here at once, and at the server later`(
        device: SimulatedDevice
    )
        async throws
    {
        try await Scene.with(on: device) { scene in
            var program = try await scene.start()
            _ = try await program.locker.startAuthSession()
            let texts = program.sealAll()
            let prompts = program.presence.requests.count
            scene.line.isDown = true
            await #expect(throws: refusal(.revocationPending)) {
                try await program.locker.endAuthSession(mode: .destroy)
            }
            #expect(program.phase == .unregistered)
            #expect(program.presence.requests.count == prompts)
            #expect(program.readable(texts).isEmpty)
            await #expect(throws: refusal(.notEnrolled)) {
                try await program.locker.endAuthSession(mode: .destroy)
            }

            // A restart without a network changes nothing. A restart with a network tells the
            // server once.
            program = try await scene.start()
            #expect(program.phase == .unregistered)
            scene.line.isDown = false
            let tries = scene.line.sent.filter(isRevocation).count
            program = try await scene.start()
            #expect(scene.line.sent.filter(isRevocation).count == tries + 1)
            program = try await scene.start()
            #expect(scene.line.sent.filter(isRevocation).count == tries + 1)
            #expect(try await program.locker.startAuthSession().phase == .activeViaStrongAuth)
        }
    }

    @Test func `a later start tells the server too`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start()
            _ = try await program.locker.startAuthSession()
            scene.line.fail(at: "/revoke", .cut)
            await #expect(throws: refusal(.revocationPending)) {
                try await program.locker.endAuthSession(mode: .destroy)
            }
            _ = try await program.locker.startAuthSession()
            #expect(scene.line.sent.filter(isRevocation).count == 2)
        }
    }

    @Test func `an enrolment that the server revoked is deleted here`() async throws {
        try await Scene.with { scene in
            let first = try await scene.start()
            _ = try await first.locker.startAuthSession()
            let texts = first.sealAll()
            let second = try await scene.start()
            let third = try await scene.start()
            _ = try await first.locker.endAuthSession(mode: .destroy)

            // Two other programs detect it, each by another call.
            await #expect(throws: BackgroundAccessError.self) {
                try await second.locker.backgroundAccess()
            }
            #expect(second.phase == .unregistered)
            #expect(second.readable(texts).isEmpty)
            await #expect(throws: refusal(.enrolmentRevoked)) {
                try await third.locker.startAuthSession()
            }
            #expect(third.phase == .unregistered)
        }
    }

    /// An attacker has an older copy of the store, the same hardware, which can't revoke sealed
    /// keys, and the PIN. The server no longer sends its shares.
    @Test func `a copy of the store reads no data of background and active`() async throws {
        try await Scene.with(on: .token) { scene in
            let program = try await scene.start()
            _ = try await program.locker.startAuthSession()
            let texts = program.sealAll()
            let (copy, second) = (try scene.copyStore(), try scene.copyStore())
            _ = try await program.locker.endAuthSession(mode: .destroy)

            let thief = try await scene.start(directory: copy.path) {
                $0.offlineVerification = OfflineVerification()
            }
            await #expect(throws: BackgroundAccessError.self) {
                try await thief.locker.backgroundAccess()
            }
            #expect(thief.readable(texts).isDisjoint(with: [.background, .active]))

            // The key of easy access is deleted from the token, so there is no request to the
            // server.
            let other = try await scene.start(directory: second.path)
            await #expect(throws: refusal(.hardware)) { try await other.locker.startAuthSession() }
            #expect(other.readable(texts).isDisjoint(with: [.background, .active]))
        }
    }

    private let offline = { @Sendable (configuration: inout LockerConfiguration) in
        configuration.offlineVerification = OfflineVerification()
    }

    /// An attacker has an older copy of the store, the same hardware and the PIN.
    private func readable(
        _ copy: TemporaryDirectory, _ texts: [ProtectionLevel: String], in scene: Scene
    ) async -> Set<ProtectionLevel> {
        guard let thief = try? await scene.start(nil, directory: copy.path, offline) else {
            return []
        }
        _ = try? await thief.locker.startAuthSession()
        return thief.readable(texts)
    }

    @Test func `a copy of the store reads no data of base and offline`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start(nil, offline)
            _ = try await program.locker.startAuthSession()
            let texts = program.sealAll()
            let (copy, second) = (try scene.copyStore(), try scene.copyStore())
            scene.line.isDown = true
            #expect(
                await readable(second, texts, in: scene) == [.base, .offline],
                "the control: before the end it reads")
            scene.line.isDown = false
            _ = try await program.locker.endAuthSession(mode: .destroy)
            scene.line.isDown = true
            let error = await #expect(throws: ErsteGroupAuthError.self) {
                _ = try await scene.start(nil, directory: copy.path, offline)
            }
            #expect(error?.underlying?.rawCode == 0x18b, "the index is deleted (TPM_RC_HANDLE)")
            #expect(await readable(copy, texts, in: scene).isEmpty)
        }
    }

    /// A documented limit: a token stores no value that could be revoked.
    @Test func `a token can't revoke base and offline in a copy of the store`() async throws {
        try await Scene.with(on: .token) { scene in
            let program = try await scene.start(nil, offline)
            _ = try await program.locker.startAuthSession()
            let texts = program.sealAll()
            let copy = try scene.copyStore()
            #expect(try await !program.keystore.capabilities().sealsRevocably)
            _ = try await program.locker.endAuthSession(mode: .destroy)
            scene.line.isDown = true
            #expect(
                await readable(copy, texts, in: scene).isDisjoint(with: [.background, .active]))
        }
    }

    /// The program ends after deleting everything, before the hardware has revoked the keys.
    @Test func `the next start revokes the keys that a crash left`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start(nil, offline)
            _ = try await program.locker.startAuthSession()
            let texts = program.sealAll()
            let (copy, second) = (try scene.copyStore(), try scene.copyStore())
            program.keystore.loseRevocations()
            await #expect(throws: refusal(.revocationPending)) {
                try await program.locker.endAuthSession(mode: .destroy)
            }
            #expect(program.phase == .unregistered)
            scene.line.isDown = true
            #expect(
                await readable(second, texts, in: scene) == [.base, .offline],
                "the keys are not revoked yet")
            let next = try await scene.start()
            #expect(next.phase == .unregistered)
            #expect(
                next.keystore.calls.filter { $0 == "revoke" }.count == 3, "two classes and a key")
            #expect(await readable(copy, texts, in: scene).isEmpty)
            #expect(try await !scene.start().keystore.calls.contains("revoke"), "and then no more")
        }
    }

    /// The key that starts sessions, at a server that does not know of the change.
    @Test(arguments: [false, true])
    func `after the secret was changed or removed, the easy-access key signs from no copy`(
        isChange: Bool
    ) async throws {
        try await Scene.with { scene in
            let program = try await scene.start(nil, offline)
            _ = try await program.locker.startAuthSession()
            let copy = try scene.copyStore()
            let store = try await RecordStore(directory: copy.path)
            let keystore = TPMKeystore(tcti: try SoftwareTPM.current.tcti, anchors: store)
            let keys = try await RecordContainer(store: store, keystore: keystore).keys()
                .compactMap(\.key)
            let key = try #require(keys.first { $0.policy.hasPIN })
            #expect(key.isRevocable)
            func sign() async throws {
                _ = try await keystore.sign(
                    MessageDigest(sha256: Array("a session".utf8)), with: key,
                    for: PromptContext(reason: "attack"),
                    authorizedBy: ScriptedPresence(pins: "2468"))
            }
            try await sign()
            if isChange {
                _ = try await program.locker.changeEasyAccess()
            } else {
                _ = try await program.locker.disableEasyAccess()
            }
            let error = await #expect(throws: KeystoreError.self) { try await sign() }
            #expect(error?.code == .invalidated)
            #expect(error?.underlying?.rawCode == 0x18b, "TPM_RC_HANDLE: it is gone")
        }
    }

    @Test func `after a change the old secret opens nothing, in no copy`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start(nil, offline)
            _ = try await program.locker.startAuthSession()
            let texts = program.sealAll()
            let copy = try scene.copyStore()
            _ = try await program.locker.changeEasyAccess()
            #expect(program.readable(texts) == Set(texts.keys))
            scene.line.isDown = true
            #expect(
                await readable(copy, texts, in: scene) == [.base],
                "base belongs to the unchanged enrolment")
        }
    }

    @Test func `another server's or client's enrolment is refused and not changed`() async throws {
        try await Scene.with { scene in
            _ = try await scene.start().locker.startAuthSession()
            await #expect(throws: refusal(.environmentChanged)) {
                try await scene.start { $0.clientID = "another" }
            }
            await #expect(throws: refusal(.environmentChanged)) {
                try await scene.start { $0.issuer = "https://another.example" }
            }
            #expect(try await scene.start().locker.startAuthSession().phase == .activeViaEasyAccess)
        }
    }

    /// The program is killed before or after each request of an enrolment.
    @Test(arguments: ["/enrolments", "/easy-access"], [true, false])
    func `a kill within an enrolment leaves no enrolment`(at path: String, isBefore: Bool)
        async throws
    {
        try await Scene.with { scene in
            let program = try await scene.start()
            scene.line.fail(at: path, isBefore ? .stopBefore : .stopAfter)
            let killed = Task { try await program.locker.startAuthSession() }
            await scene.line.reached()
            let next = try await scene.start()
            #expect(next.phase == .unregistered)
            #expect(scene.line.sent.contains(where: isRevocation))
            #expect(scene.line.existingEnrolments.isEmpty)
            #expect(try await next.locker.startAuthSession().phase == .activeViaStrongAuth)
            #expect(try await next.keystore.capabilities().device.isEmpty == false)
            scene.line.release()
            _ = await killed.result
            #expect(try await scene.start().phase == .enrolled)
        }
    }

    @Test func `a cancelled enrolment leaves nothing, here and at the server`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start(ScriptedPresence([.decline, .pin("2468")]))
            await #expect(throws: refusal(.userCancelled)) {
                try await program.locker.startAuthSession()
            }
            #expect(program.phase == .unregistered)
            #expect(scene.line.sent.filter(isRevocation).count == 1)
            #expect(try await scene.start().phase == .unregistered)
            #expect(scene.line.sent.filter(isRevocation).count == 1)
            #expect(try await program.locker.startAuthSession().phase == .activeViaStrongAuth)
        }
    }
}
