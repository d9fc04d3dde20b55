import Foundation
import Latchkey
import LatchkeyJOSE
import LatchkeyLocker
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Enabling, changing and disabling easy access.
@Suite(.softwareTPM, .softwareToken)
struct EasyAccessTests {
    @Test func `after a change the new PIN opens everything, and the old one nothing`() async throws
    {
        try await Scene.with { scene in
            let offline = { (configuration: inout LockerConfiguration) in
                configuration.offlineVerification = OfflineVerification()
            }
            var program = try await scene.start(
                ScriptedPresence(pins: "2468", "1357", "1357"), offline)
            _ = try await program.locker.startAuthSession()
            let texts = program.sealAll()
            #expect(try await program.locker.changeEasyAccess().phase == .activeViaStrongAuth)
            #expect(program.presence.requests.map(\.purpose) == [.new, .new])
            #expect(program.readable(texts) == Set(ProtectionLevel.allCases))
            // The server has only the new key.
            #expect(scene.line.sent.last?.path.hasSuffix("/easy-access/disable") == true)

            program = try await scene.start(ScriptedPresence(pins: "2468", "1357", "1357"), offline)
            await #expect(throws: refusal(.wrongSecret)) {
                try await program.locker.startAuthSession()
            }
            #expect(program.phase == .enrolled)
            #expect(try await program.locker.startAuthSession().phase == .activeViaEasyAccess)
            #expect(program.readable(texts) == Set(ProtectionLevel.allCases))
            _ = try await program.locker.endAuthSession(mode: .lock)
            scene.line.isDown = true
            #expect(try await program.locker.startAuthSession().phase == .verifiedOffline)
            #expect(program.readable(texts) == [.base, .offline])
        }
    }

    @Test func `a cancelled change leaves the old PIN`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start(
                ScriptedPresence([.pin("2468"), .decline, .pin("2468"), .pin("2468"), .pin("2468")])
            )
            let before = try await program.locker.startAuthSession()
            await #expect(throws: refusal(.userCancelled)) {
                try await program.locker.changeEasyAccess()
            }
            #expect(program.locker.authSessionStatus == before)
            await scene.channel.next(.decline)
            await #expect(throws: refusal(.userCancelled)) {
                try await program.locker.changeEasyAccess()
            }
            #expect(program.locker.authSessionStatus == before)
            // By then the PIN is set and the server can't be reached.
            scene.line.fail(at: "/easy-access", .cut)
            await #expect(throws: refusal(.network)) { try await program.locker.changeEasyAccess() }
            #expect(program.locker.authSessionStatus == before)
            _ = try await program.locker.endAuthSession(mode: .lock)
            #expect(try await program.locker.startAuthSession().phase == .activeViaEasyAccess)
        }
    }

    /// The program is killed before or after each request.
    @Test(arguments: ["/challenge", "/easy-access", "/easy-access/disable"], [true, false])
    func `a kill within a change leaves one working PIN`(at path: String, isBefore: Bool)
        async throws
    {
        try await Scene.with { scene in
            let program = try await scene.start(ScriptedPresence(pins: "2468", "1357"))
            _ = try await program.locker.startAuthSession()
            let texts = program.sealAll()
            scene.line.fail(at: path, isBefore ? .stopBefore : .stopAfter)
            let killed = Task { try await program.locker.changeEasyAccess() }
            await scene.line.reached()
            let works = path == "/easy-access/disable" ? "1357" : "2468"
            let next = try await scene.start(ScriptedPresence(pins: works, "8642", "8642"))
            #expect(try await next.locker.startAuthSession().phase == .activeViaEasyAccess)
            #expect(next.readable(texts) == Set(ProtectionLevel.allCases))
            // Unused keys do not prevent another change.
            _ = try await next.locker.changeEasyAccess()
            _ = try await next.locker.endAuthSession(mode: .lock)
            #expect(try await next.locker.startAuthSession().phase == .activeViaEasyAccess)
            #expect(next.readable(texts) == Set(ProtectionLevel.allCases))
            scene.line.release()
            _ = await killed.result
        }
    }

    @Test func `a key that the server removed is deleted here, and the enrolment stays`()
        async throws
    {
        try await Scene.with { scene in
            let program = try await scene.start()
            _ = try await program.locker.startAuthSession()
            let texts = program.sealAll()
            _ = try await program.locker.endAuthSession(mode: .lock)
            scene.line.fail(
                at: "/token",
                .answer(
                    status: 400, body: #"{"error":"easy_access_revoked","error_description":"x"}"#))
            await #expect(throws: refusal(.easyAccessRevoked)) {
                try await program.locker.startAuthSession()
            }
            #expect(program.phase == .enrolled)
            #expect(!program.locker.authSessionStatus.isEasyAccessEnabled)
            #expect(try await program.locker.startAuthSession().phase == .activeViaStrongAuth)
            #expect(program.readable(texts) == Set(ProtectionLevel.allCases))
            #expect(try await scene.start().locker.authSessionStatus.isEasyAccessEnabled == false)
        }
    }

    @Test(arguments: [(30.0, 2), (61, 3), (-30, 3)])
    func `enabling requires a login, unless there was a recent one`(age: Double, logins: Int)
        async throws
    {
        try await Scene.with { scene in
            let program = try await scene.start()
            _ = try await program.locker.startAuthSession()
            _ = try await program.locker.disableEasyAccess()
            _ = try await program.locker.startAuthSession()
            scene.clock.advance(by: age)
            #expect(try await program.locker.enableEasyAccess().isEasyAccessEnabled)
            #expect(await scene.channel.requests.count == logins)
            // A change always requires a login.
            _ = try await program.locker.changeEasyAccess()
            #expect(await scene.channel.requests.count == logins + 1)
        }
    }

    @Test func `the device countersigns the new key without a prompt`() async throws {
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
            let enrolment = try ReceivedJWS(bodies(at: "/enrolments")[0]["assertion"] ?? "")
            let device = enrolment.header["jwk"]
            let deviceKey = try JSONDecoder().decode(JWK.self, from: JSONEncoder().encode(device))
                .publicKey()
            let enabled = try bodies(at: "/easy-access")
            #expect(enabled.count == 2)
            for body in enabled {
                let assertion = try ReceivedJWS(body["assertion"] ?? "")
                let signature = try #require(Base64URL.decode(body["device_signature"] ?? ""))
                let text = "vnd.latchkey.locker-countersignature:" + assertion.signingInput
                let made = try #require(ECDSASignature(rawRepresentation: signature))
                #expect(deviceKey.isValid(made, for: MessageDigest(sha256: text.utf8)))
            }
        }
    }

    /// A proof that the hardware would still accept ends with the session.
    @Test func `every end of a session ends proof reuse in the hardware`() async throws {
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

    @Test func `a start removes an unused key at the server`() async throws {
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

    /// The configured action after the last wrong secret that the locker allows. The TPM of the test
    /// allows another.
    @Test(arguments: SecretExhaustion.allCases, [true, false])
    func `too many wrong PINs`(exhaustion: SecretExhaustion, hasNetwork: Bool) async throws {
        try await Scene.with { scene in
            let presence = ScriptedPresence(pins: "2468", "999999", "999999", "2468")
            let program = try await scene.start(presence) {
                ($0.secretExhaustion, $0.maximumAttempts) = (exhaustion, 2)
                $0.offlineVerification = OfflineVerification()
            }
            _ = try await program.locker.startAuthSession()
            let texts = program.sealAll()
            _ = try await program.locker.endAuthSession(mode: .lock)
            await #expect(throws: refusal(.wrongSecret)) {
                try await program.locker.startAuthSession()
            }
            #expect(program.locker.authSessionStatus.isEasyAccessEnabled)
            #expect(presence.requests.last?.hint == nil)
            // The attempts with and without a network have one count.
            scene.line.isDown = !hasNetwork
            let error = await #expect(throws: refusal(.wrongSecret)) {
                try await program.locker.startAuthSession()
            }
            #expect(error?.attemptsLeft == 1)
            #expect((presence.requests.last?.hint == nil) == (exhaustion == .wait))
            let status = program.locker.authSessionStatus
            #expect(status.isEasyAccessEnabled == (exhaustion == .wait))
            scene.line.isDown = false
            switch exhaustion {
            case .disableEasyAccess:
                #expect(status.phase == .enrolled)
                if hasNetwork {
                    // The device told the server immediately, so a copy of the store is useless.
                    #expect(
                        scene.line.sent.filter { $0.path.hasSuffix("/easy-access/disable") }.count
                            == 1)
                    let rows = try await Disk(path: scene.databasePath).rows()
                    #expect(rows.allSatisfy { !$0.hasPrefix("locker.pending") })
                }
                #expect(try await program.locker.startAuthSession().phase == .activeViaStrongAuth)
                #expect(program.readable(texts) == Set(ProtectionLevel.allCases))
            case .wait:
                #expect(status.phase == .enrolled)
                #expect(try await program.locker.startAuthSession().phase == .activeViaEasyAccess)
                #expect(program.locker.authSessionStatus.offlineAttemptsLeft == 2)
            case .destroyEnrolment:
                #expect(status.phase == .unregistered)
                #expect(program.readable(texts).isEmpty)
                #expect(scene.line.existingEnrolments.isEmpty == hasNetwork)
            }
        }
    }

    /// Another program spends the TPM's attempts, or an attacker on its wire forges the refusal of
    /// the right PIN and the count.
    @Test(.requires(program: "tpm2_dictionarylockout"), arguments: SecretExhaustion.allCases)
    func `a lockout that others cause deletes nothing`(exhaustion: SecretExhaustion) async throws {
        try await Scene.with { scene in
            let presence = ScriptedPresence(pins: "2468", "2468", "999999", "2468")
            let program = try await scene.start(presence) { $0.secretExhaustion = exhaustion }
            _ = try await program.locker.startAuthSession()
            let texts = program.sealAll()
            _ = try await program.locker.endAuthSession(mode: .lock)
            func expectRefused() async {
                let error = await #expect(throws: refusal(.wrongSecret)) {
                    try await program.locker.startAuthSession()
                }
                #expect(error?.attemptsLeft == 0)
                #expect(program.phase == .enrolled)
                #expect(program.locker.authSessionStatus.isEasyAccessEnabled)
            }
            program.keystore.forge(
                KeystoreError(
                    code: .wrongProof, reason: "the PIN is wrong", recovery: "Try again.",
                    attemptsLeft: 0))
            await expectRefused()

            let prompt = PromptContext(reason: "test", container: "other")
            let other = try await program.keystore.createKey(
                KeyRequest(policy: .pin, prompt: prompt),
                authorizedBy: ScriptedPresence(pins: "1357"))
            let digest = MessageDigest(sha256: "x".utf8)
            while try #require(try await program.keystore.pinStatus().attemptsLeft) > 1 {
                await #expect(throws: KeystoreError.self) {
                    try await program.keystore.sign(
                        digest, with: other, for: prompt,
                        authorizedBy: ScriptedPresence(pins: "999999"))
                }
            }
            await expectRefused()
            await #expect(throws: refusal(.secretLockedOut)) {
                try await program.locker.startAuthSession()
            }
            let password = try #require(try SoftwareTPM.current.lockoutPassword)
            try await SystemProgram("tpm2_dictionarylockout").require([
                "-T", SoftwareTPM.current.tcti, "-c", "-p", password,
            ])
            #expect(try await program.locker.startAuthSession().phase == .activeViaEasyAccess)
            #expect(program.readable(texts) == Set(ProtectionLevel.allCases))
        }
    }

    @Test func `unknown keys that fill the server are removed when another is enabled`()
        async throws
    {
        try await Scene.with { scene in
            let program = try await scene.start()
            _ = try await program.locker.startAuthSession()
            // Twice the server is not told that its key is deleted, and no row is left here.
            for isLast in [false, true] {
                scene.line.fail(at: "/easy-access", .answer(status: 204, body: ""))
                _ = try await program.locker.disableEasyAccess()
                _ = try await program.locker.startAuthSession()
                if isLast {
                    await #expect(throws: refusal(.server)) {
                        try await program.locker.enableEasyAccess()
                    }
                }
                _ = try await program.locker.enableEasyAccess()
            }
            _ = try await program.locker.endAuthSession(mode: .lock)
            #expect(try await program.locker.startAuthSession().phase == .activeViaEasyAccess)
        }
    }

    @Test func `easy access is disabled in a session whose token has expired`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start()
            scene.line.fail(at: "/token", .altered(#""expires_in":1800"#, to: #""expires_in":1"#))
            let status = try await program.locker.startAuthSession()
            scene.clock.advance(by: 2)
            #expect(status.accessToken?.isExpired(at: scene.clock.now) == true)
            #expect(try await program.locker.disableEasyAccess().phase == .enrolled)
            #expect(!program.locker.authSessionStatus.isEasyAccessEnabled)
            #expect(try await program.locker.startAuthSession().phase == .activeViaStrongAuth)
        }
    }

    @Test(arguments: SimulatedDevice.allCases)
    func `a wrong PIN is reported and counted, and the next prompt comes with the next call`(
        device: SimulatedDevice
    ) async throws {
        try await Scene.with(on: device) { scene in
            let program = try await scene.start(
                ScriptedPresence(pins: scene.pin, "999999", scene.pin))
            _ = try await program.locker.startAuthSession()
            _ = try await program.locker.endAuthSession(mode: .lock)
            await #expect(throws: refusal(.wrongSecret)) {
                try await program.locker.startAuthSession()
            }
            #expect(program.phase == .enrolled)
            #expect(program.presence.requests.count == 2)
            #expect(try await program.locker.startAuthSession().phase == .activeViaEasyAccess)
        }
    }
}
