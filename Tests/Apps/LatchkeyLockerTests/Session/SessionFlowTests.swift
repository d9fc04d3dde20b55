import Foundation
import Latchkey
import LatchkeyJOSE
import LatchkeyLocker
import LatchkeyOAuth
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Sessions against the real server, on a software TPM and a software token.
@Suite(.softwareTPM, .softwareToken)
struct SessionFlowTests {
    @Test(arguments: SimulatedDevice.allCases)
    func `a session goes through every status`(device: SimulatedDevice) async throws {
        try await Scene.with(on: device) { scene in
            let offline = { (configuration: inout LockerConfiguration) in
                configuration.offlineVerification = OfflineVerification()
            }
            var program = try await scene.start(nil, offline)
            #expect(program.phase == .unregistered)
            #expect(program.sealAll().isEmpty)

            // The user logs in once and sets the secret once.
            let enrolled = try await program.locker.startAuthSession()
            #expect(enrolled.phase == .activeViaStrongAuth)
            #expect(enrolled.isEasyAccessEnabled)
            #expect(enrolled.accessToken?.value?.isEmpty == false)
            #expect(program.presence.requests.count == 1)
            #expect(await scene.channel.requests.count == 1)
            let texts = program.sealAll()
            #expect(texts.count == 4)
            #expect(program.readable(texts) == Set(ProtectionLevel.allCases))

            // A lock closes the tokens, without a prompt.
            let locked = try await program.locker.endAuthSession(mode: .lock)
            #expect(locked.phase == .enrolled && locked.accessToken == nil)
            #expect(enrolled.accessToken?.value == nil)
            #expect(program.readable(texts) == [.base])
            #expect(program.presence.requests.count == 1)

            // Easy access needs one prompt and one key use with user verification.
            program.keystore.forget()
            #expect(try await program.locker.startAuthSession().phase == .activeViaEasyAccess)
            #expect(program.presence.requests.count == 2)
            #expect(program.keystore.calls.filter { $0.hasSuffix("!") } == ["sign!"])
            #expect(program.readable(texts) == Set(ProtectionLevel.allCases))
            #expect(await scene.channel.requests.count == 1)

            // After a restart there is only the enrolment.
            program = try await scene.start(ScriptedPresence(pins: scene.pin, scene.pin), offline)
            #expect(program.phase == .enrolled)
            #expect(program.readable(texts) == [.base])
            let background = try await program.locker.backgroundAccess()
            #expect(background.phase == .backgroundAccess)
            #expect(background.accessToken?.scopes.isEmpty == false)
            #expect(program.readable(texts) == [.base, .background])
            #expect(program.presence.requests.isEmpty)

            // Without a network the user is verified, and there is no token. It takes one
            // unsealing, and ends background access.
            _ = try await program.locker.endAuthSession(mode: .lock)
            scene.line.isDown = true
            program.keystore.forget()
            let verified = try await program.locker.startAuthSession()
            #expect(verified.phase == .verifiedOffline && verified.accessToken == nil)
            #expect(program.keystore.calls.filter { $0.hasSuffix("!") } == ["unseal!"])
            #expect(program.readable(texts) == [.base, .offline])
            #expect(program.presence.requests.count == 1)
            // The next start prompts again.
            #expect(try await program.locker.startAuthSession().phase == .verifiedOffline)
            #expect(program.presence.requests.count == 2)
            await #expect(throws: refusal(.offline)) {
                try await program.locker.startAuthSession(options: .init(requiredLevel: .strong))
            }
            scene.line.isDown = false

            // Strong authentication needs no secret.
            #expect(
                try await program.locker.startAuthSession(options: .init(requiredLevel: .strong))
                    .phase
                    == .activeViaStrongAuth)
            #expect(program.presence.requests.count == 2)
            #expect(program.readable(texts) == Set(ProtectionLevel.allCases))

            // The end.
            #expect(try await program.locker.endAuthSession(mode: .destroy).phase == .unregistered)
            #expect(program.readable(texts).isEmpty)
            #expect(throws: ProtectionError.wrongEnrolment) {
                try program.locker.decrypt(encryptedSecret: try #require(texts[.base]))
            }
            program = try await scene.start()
            #expect(program.phase == .unregistered)
        }
    }

    @Test func `an active session keeps its token, and the caller gets the narrow one`()
        async throws
    {
        try await Scene.with { scene in
            let program = try await scene.start()
            let full = try await program.locker.startAuthSession()
            let narrow = try await program.locker.backgroundAccess()
            #expect(narrow.phase == .activeViaStrongAuth)
            #expect(narrow.accessToken != full.accessToken)
            #expect(narrow.accessToken?.scopes == ["openid", "profile"])
            #expect(program.locker.authSessionStatus == full)
            _ = try await program.locker.endAuthSession(mode: .lock)
            #expect(narrow.accessToken?.value == nil)
        }
    }

    @Test func `each change of the status is reported once`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start()
            let changes = program.locker.statusChanges
            _ = try await program.locker.startAuthSession()
            _ = try await program.locker.endAuthSession(mode: .lock)
            _ = try await program.locker.endAuthSession(mode: .lock)
            _ = try await program.locker.backgroundAccess()
            _ = try await program.locker.endAuthSession(mode: .destroy)
            var told: [AuthSessionChange] = []
            for await change in changes {
                told.append(change)
                if change.new.phase == .unregistered { break }
            }
            #expect(told.map(\.cause) == [.started, .locked, .backgroundAccess, .destroyed])
            #expect(
                told.map(\.new.phase) == [
                    .activeViaStrongAuth, .enrolled, .backgroundAccess, .unregistered,
                ])
            #expect(zip(told, told.dropFirst()).allSatisfy { $0.new == $1.old })
        }
    }

    @Test func `the app's metadata is sent to the server, and is in no row and no log message`()
        async throws
    {
        try await Scene.with { scene in
            let program = try await scene.start()
            _ = try await program.locker.startAuthSession(metadata: [
                "canary": ["deep": "canary-metadata", "n": 3]
            ])
            _ = try await program.locker.backgroundAccess(metadata: ["canary": "canary-metadata"])
            let sent = scene.assertionsSent
            #expect(
                sent.contains {
                    $0.contains(#""metadata":{"canary":{"deep":"canary-metadata","n":3}}"#)
                })
            #expect(sent.contains { $0.contains(#""metadata":{"canary":"canary-metadata"}"#) })
            let big = JSONValue.string(String(repeating: "x", count: 4096))
            await #expect(throws: refusal(.invalidInput)) {
                try await program.locker.startAuthSession(metadata: ["big": big])
            }
            for name in try FileManager.default.contentsOfDirectory(
                atPath: scene.directory.path(of: "default"))
            {
                let bytes = try Data(
                    contentsOf: URL(filePath: scene.directory.path(of: "default/\(name)")))
                #expect(bytes.range(of: Data("canary".utf8)) == nil, "\(name)")
            }
            #expect(!scene.log.messages.isEmpty)
            #expect(!scene.log.messages.contains { $0.contains("canary") })
        }
    }

    @Test func `no secret reaches the log`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start()
            let status = try await program.locker.startAuthSession()
            let token = try #require(status.accessToken?.value)
            let text = try program.locker.encrypt(secret: "canary-secret", protectionLevel: .active)
            _ = try program.locker.decrypt(encryptedSecret: text)
            _ = try await program.locker.backgroundAccess()
            _ = try await program.locker.changeEasyAccess()
            _ = try await program.locker.endAuthSession(mode: .destroy)
            let log = scene.log.messages.joined(separator: "\n")
            #expect(log.contains("activeViaStrongAuth"))
            for secret in [token, "canary", scene.pin, "eyJ", scene.server.users[0].password] {
                #expect(!log.contains(secret))
            }
            #expect("\(status)".contains(token) == false)
        }
    }

    @Test func `another user is refused on a device that is enrolled`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start()
            let mine = try await program.locker.startAuthSession()
            let other = FormChannel(scene.server.users[1])
            await #expect(throws: refusal(.userMismatch)) {
                try await program.locker.startAuthSession(
                    options: .init(requiredLevel: .strong, channel: other.authorize))
            }
            #expect(program.locker.authSessionStatus == mine)
        }
    }

    @Test func `a cached secret is used until a lock, and a wrong one leads to a prompt`()
        async throws
    {
        try await Scene.with { scene in
            let program = try await scene.start(
                ScriptedPresence(pins: scene.pin, scene.pin, scene.pin)
            ) {
                $0.cachedSecretLife = .seconds(600)
            }
            _ = try await program.locker.startAuthSession()
            _ = try await program.locker.startAuthSession()
            #expect(program.presence.requests.count == 2)
            #expect(try await program.locker.startAuthSession().phase == .activeViaEasyAccess)
            #expect(program.presence.requests.count == 2)
            _ = try await program.locker.endAuthSession(mode: .lock)
            _ = try await program.locker.startAuthSession()
            #expect(program.presence.requests.count == 3)
        }
    }
}
