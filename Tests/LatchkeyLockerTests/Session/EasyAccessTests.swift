import Foundation
import Latchkey
import LatchkeyLocker
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// The secret's life.
@Suite(.softwareTPM, .softwareToken)
struct EasyAccessTests {
    @Test func `a changed PIN opens everything, and the old one nothing`() async throws {
        try await Scene.with { scene in
            let offline = { (configuration: inout LockerConfiguration) in
                configuration.offlineVerification = OfflineVerification()
            }
            var program = try await scene.start(ScriptedPresence(pins: "2468", "1357", "1357"), offline)
            _ = try await program.locker.startAuthSession()
            let texts = program.sealAll()
            #expect(try await program.locker.changeEasyAccess().phase == .activeViaStrongAuth)
            #expect(program.presence.requests.map(\.purpose) == [.new, .new])
            #expect(program.readable(texts) == Set(ProtectionLevel.allCases))
            // The server has the new key and no other.
            #expect(scene.line.sent.last?.path.hasSuffix("/easy-access/disable") == true)

            program = try await scene.start(ScriptedPresence(pins: "2468", "1357", "1357"), offline)
            await #expect(throws: refusal(.wrongSecret)) { try await program.locker.startAuthSession() }
            #expect(program.phase == .enrolled)
            #expect(try await program.locker.startAuthSession().phase == .activeViaEasyAccess)
            #expect(program.readable(texts) == Set(ProtectionLevel.allCases))
            _ = try await program.locker.endAuthSession(mode: .lock)
            scene.line.isDown = true
            #expect(try await program.locker.startAuthSession().phase == .verifiedOffline)
            #expect(program.readable(texts) == [.base, .offline])
        }
    }

    @Test(arguments: SimulatedDevice.allCases)
    func `disabling keeps what strong authentication opens, and enabling sets another secret`(
        device: SimulatedDevice
    ) async throws {
        try await Scene.with(on: device) { scene in
            let program = try await scene.start()
            _ = try await program.locker.startAuthSession()
            let texts = program.sealAll()
            let disabled = try await program.locker.disableEasyAccess()
            #expect(disabled.phase == .enrolled && !disabled.isEasyAccessEnabled)
            #expect(program.readable(texts) == [.base])
            await #expect(throws: refusal(.easyAccessDisabled)) {
                try await program.locker.startAuthSession(options: .init(requiredLevel: .easyAccess))
            }
            let prompts = program.presence.requests.count
            #expect(try await program.locker.startAuthSession().phase == .activeViaStrongAuth)
            #expect(program.presence.requests.count == prompts)
            #expect(program.readable(texts) == Set(ProtectionLevel.allCases))
            await #expect(throws: refusal(.easyAccessDisabled)) { try await program.locker.changeEasyAccess() }
            let enabled = try await program.locker.enableEasyAccess()
            #expect(enabled.phase == .activeViaStrongAuth && enabled.isEasyAccessEnabled)
            // One login to enrol, one to start, and none more: its token goes on.
            #expect(await scene.channel.requests.count == 2)
            #expect(enabled.accessToken?.value != nil)
            await #expect(throws: refusal(.easyAccessEnabled)) { try await program.locker.enableEasyAccess() }
            _ = try await program.locker.endAuthSession(mode: .lock)
            #expect(try await program.locker.startAuthSession().phase == .activeViaEasyAccess)
            #expect(program.readable(texts) == Set(ProtectionLevel.allCases))
        }
    }

    @Test func `a change that is given up leaves the old PIN`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start(
                ScriptedPresence([.pin("2468"), .decline, .pin("2468"), .pin("2468"), .pin("2468")]))
            let before = try await program.locker.startAuthSession()
            await #expect(throws: refusal(.userCancelled)) { try await program.locker.changeEasyAccess() }
            #expect(program.locker.authSessionStatus == before)
            await scene.channel.next(.decline)
            await #expect(throws: refusal(.userCancelled)) { try await program.locker.changeEasyAccess() }
            #expect(program.locker.authSessionStatus == before)
            // The PIN is set and the server is gone by then.
            scene.line.fail(at: "/easy-access", .cut)
            await #expect(throws: refusal(.network)) { try await program.locker.changeEasyAccess() }
            #expect(program.locker.authSessionStatus == before)
            _ = try await program.locker.endAuthSession(mode: .lock)
            #expect(try await program.locker.startAuthSession().phase == .activeViaEasyAccess)
        }
    }

    /// The program is killed on either side of each thing that it asks of the server.
    @Test(arguments: ["/challenge", "/easy-access", "/easy-access/disable"], [true, false])
    func `a kill within a change leaves one working PIN`(at place: String, isBefore: Bool) async throws {
        try await Scene.with { scene in
            let program = try await scene.start(ScriptedPresence(pins: "2468", "1357"))
            _ = try await program.locker.startAuthSession()
            let texts = program.sealAll()
            scene.line.fail(at: place, isBefore ? .stopBefore : .stopAfter)
            let killed = Task { try await program.locker.changeEasyAccess() }
            await scene.line.reached()
            let works = place == "/easy-access/disable" ? "1357" : "2468"
            let next = try await scene.start(ScriptedPresence(pins: works, "8642", "8642"))
            #expect(try await next.locker.startAuthSession().phase == .activeViaEasyAccess)
            #expect(next.readable(texts) == Set(ProtectionLevel.allCases))
            // What is left over does not stand in the way of another change.
            _ = try await next.locker.changeEasyAccess()
            _ = try await next.locker.endAuthSession(mode: .lock)
            #expect(try await next.locker.startAuthSession().phase == .activeViaEasyAccess)
            #expect(next.readable(texts) == Set(ProtectionLevel.allCases))
            scene.line.release()
            _ = await killed.result
        }
    }

    @Test func `a key that the server gave up is given up here, and the enrolment stays`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start()
            _ = try await program.locker.startAuthSession()
            let texts = program.sealAll()
            _ = try await program.locker.endAuthSession(mode: .lock)
            scene.line.fail(
                at: "/token", .answer(status: 400, body: #"{"error":"easy_access_revoked","error_description":"x"}"#))
            await #expect(throws: refusal(.easyAccessRevoked)) { try await program.locker.startAuthSession() }
            #expect(program.phase == .enrolled)
            #expect(!program.locker.authSessionStatus.isEasyAccessEnabled)
            #expect(try await program.locker.startAuthSession().phase == .activeViaStrongAuth)
            #expect(program.readable(texts) == Set(ProtectionLevel.allCases))
            #expect(try await scene.start().locker.authSessionStatus.isEasyAccessEnabled == false)
        }
    }

    @Test(arguments: [(30.0, 2), (61, 3), (-30, 3)])
    func `enabling wants a login, unless there was one a moment ago`(age: Double, logins: Int) async throws {
        try await Scene.with { scene in
            let program = try await scene.start()
            _ = try await program.locker.startAuthSession()
            _ = try await program.locker.disableEasyAccess()
            _ = try await program.locker.startAuthSession()
            scene.clock.advance(by: age)
            #expect(try await program.locker.enableEasyAccess().isEasyAccessEnabled)
            #expect(await scene.channel.requests.count == logins)
            // A change is always for whoever can log in.
            _ = try await program.locker.changeEasyAccess()
            #expect(await scene.channel.requests.count == logins + 1)
        }
    }

    @Test func `the device itself says that it wants the key, and nobody is asked for that`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start()
            _ = try await program.locker.startAuthSession()
            _ = try await program.locker.changeEasyAccess()
            #expect(program.presence.requests.map(\.purpose) == [.new, .new])
            func bodies(at path: String) throws -> [[String: String]] {
                try scene.line.sent.filter { $0.path.hasSuffix(path) }.map {
                    try JSONDecoder().decode([String: String].self, from: Data($0.body.utf8))
                }
            }
            let enrolment = try #require(JWS.parse(try bodies(at: "/enrolments")[0]["assertion"] ?? ""))
            let device = try JSONDecoder().decode([String: JSONValue].self, from: enrolment.header)["jwk"]
            let deviceKey = try JSONDecoder().decode(JWK.self, from: JSONEncoder().encode(device)).publicKey()
            let enabled = try bodies(at: "/easy-access")
            #expect(enabled.count == 2)
            for body in enabled {
                let assertion = try #require(JWS.parse(body["assertion"] ?? ""))
                let signature = try #require(Base64URL.decode(body["device_signature"] ?? ""))
                let text = "vnd.latchkey.locker-countersignature:" + assertion.signingInput
                let made = try #require(ECDSASignature(rawRepresentation: signature))
                #expect(deviceKey.isValid(made, for: MessageDigest(sha256: text.utf8)))
            }
        }
    }

    /// A proof that the hardware would still take ends with what it was given for.
    @Test func `every ending ends reuse at the hardware`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start()
            _ = try await program.locker.startAuthSession()
            var endings = program.keystore.reuseEndings
            func hasGrown() -> Bool {
                defer { endings = program.keystore.reuseEndings }
                return program.keystore.reuseEndings > endings
            }
            _ = try await program.locker.endAuthSession(mode: .lock)
            #expect(hasGrown())
            _ = try await program.locker.startAuthSession()
            #expect(!hasGrown())
            _ = try await program.locker.changeEasyAccess()
            #expect(hasGrown())
            _ = try await program.locker.disableEasyAccess()
            #expect(hasGrown())
            _ = try await program.locker.endAuthSession(mode: .destroy)
            #expect(hasGrown())
        }
    }

    @Test func `a plain start removes a key of which the server heard in vain`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start(ScriptedPresence(pins: "2468", "1357"))
            _ = try await program.locker.startAuthSession()
            scene.line.fail(at: "/easy-access", .stopAfter)
            let killed = Task { try await program.locker.changeEasyAccess() }
            await scene.line.reached()
            let disk = Disk(path: scene.databasePath)
            #expect(try await disk.rows().contains { $0.hasPrefix("locker.pending") })
            let next = try await scene.start()
            _ = try await next.locker.startAuthSession()
            #expect(scene.line.sent.last?.path.hasSuffix("/easy-access/disable") == true)
            #expect(try await disk.rows().allSatisfy { !$0.hasPrefix("locker.pending") })
            scene.line.release()
            _ = await killed.result
        }
    }

    /// What follows the last secret that the TPM takes, as configured.
    @Test(arguments: SecretExhaustion.allCases)
    func `wrong PINs until the hardware takes no more`(exhaustion: SecretExhaustion) async throws {
        try await Scene.with { scene in
            let presence = ScriptedPresence([.pin("2468")] + Array(repeating: .pin("999999"), count: 64))
            let program = try await scene.start(presence) { $0.secretExhaustion = exhaustion }
            _ = try await program.locker.startAuthSession()
            let texts = program.sealAll()
            _ = try await program.locker.endAuthSession(mode: .lock)
            var left = try #require(try await program.keystore.pinStatus().attemptsLeft)
            while left > 0 {
                left -= 1
                let error = await #expect(throws: refusal(.wrongSecret)) {
                    try await program.locker.startAuthSession()
                }
                #expect(error?.attemptsLeft == left)
                #expect((error?.lockedOutUntil != nil) == (left == 0))
            }
            let status = program.locker.authSessionStatus
            let prompts = program.presence.requests.count
            switch exhaustion {
            case .disableEasyAccess:
                #expect(status.phase == .enrolled && !status.isEasyAccessEnabled)
                // The server heard of it at once, by the device's word: a copy of the store is of no use.
                #expect(scene.line.sent.filter { $0.path.hasSuffix("/easy-access/disable") }.count == 1)
                let rows = try await Disk(path: scene.databasePath).rows()
                #expect(rows.allSatisfy { !$0.hasPrefix("locker.pending") })
                #expect(try await program.locker.startAuthSession().phase == .activeViaStrongAuth)
                #expect(program.readable(texts) == Set(ProtectionLevel.allCases))
            case .wait:
                #expect(status.phase == .enrolled && status.isEasyAccessEnabled)
                await #expect(throws: refusal(.secretLockedOut)) { try await program.locker.startAuthSession() }
            case .destroyEnrolment:
                #expect(status.phase == .unregistered)
                #expect(program.readable(texts).isEmpty)
                #expect(scene.line.standingEnrolments.isEmpty)
            }
            #expect(program.presence.requests.count == prompts)
        }
    }

    @Test func `keys that fill the server and that nobody knows of go when another is enabled`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start()
            _ = try await program.locker.startAuthSession()
            // Twice the server does not hear that its key is given up, and here nothing of it is left.
            for isLast in [false, true] {
                scene.line.fail(at: "/easy-access", .answer(status: 204, body: ""))
                _ = try await program.locker.disableEasyAccess()
                _ = try await program.locker.startAuthSession()
                if isLast {
                    await #expect(throws: refusal(.server)) { try await program.locker.enableEasyAccess() }
                }
                _ = try await program.locker.enableEasyAccess()
            }
            _ = try await program.locker.endAuthSession(mode: .lock)
            #expect(try await program.locker.startAuthSession().phase == .activeViaEasyAccess)
        }
    }

    @Test func `an expired token can't disable, and the session stays`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start()
            let status = try await program.locker.startAuthSession()
            scene.clock.advance(by: 86_400)
            #expect(status.accessToken?.isExpired(at: scene.clock.now) == true)
            await #expect(throws: refusal(.strongAuthRequired)) { try await program.locker.disableEasyAccess() }
            #expect(program.locker.authSessionStatus == status)
        }
    }

    @Test(arguments: SimulatedDevice.allCases)
    func `a wrong PIN is told and counted, and asked for again only at the next call`(
        device: SimulatedDevice
    ) async throws {
        try await Scene.with(on: device) { scene in
            let program = try await scene.start(ScriptedPresence(pins: scene.pin, "999999", scene.pin))
            _ = try await program.locker.startAuthSession()
            _ = try await program.locker.endAuthSession(mode: .lock)
            await #expect(throws: refusal(.wrongSecret)) { try await program.locker.startAuthSession() }
            #expect(program.phase == .enrolled)
            #expect(program.presence.requests.count == 2)
            #expect(try await program.locker.startAuthSession().phase == .activeViaEasyAccess)
        }
    }
}
