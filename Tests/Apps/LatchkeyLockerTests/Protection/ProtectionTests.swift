import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import LatchkeyLocker

/// Encryption and decryption.
@Suite(.softwareTPM, .softwareToken)
struct ProtectionTests {
    /// An attacker who can write the file can't predict the next class, nor replace a class.
    @Test func `each secret has a separate class, and a planted class is not used`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start(ScriptedPresence(pins: "2468", "1357"))
            _ = try await program.locker.startAuthSession()
            let disk = Disk(path: scene.databasePath)
            let before = try await disk.classes()
            #expect(before.filter { $0.contains("locker.") }.count == 2)
            let offline = try #require(before.first { $0.contains("locker.offline.") })
            let planted =
                offline.split(separator: ".").dropLast().joined(separator: ".") + ".planted"
            try await disk.copyClass(offline, to: planted)
            _ = try await program.locker.changeEasyAccess()
            let after = try await disk.classes()
            #expect(after.filter { $0.contains("locker.offline.") }.count == 1)
            #expect(!after.contains(offline) && !after.contains(planted))
            // An `offline` row with a class of another kind is refused.
            try await disk.moveOfflineKey(to: "device")
            await #expect(throws: refusal(.storageCorrupted)) { try await scene.start() }
        }
    }

    @Test func `a change of any byte is refused`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start()
            _ = try await program.locker.startAuthSession()
            let text = try program.locker.encrypt(secret: "s3cret", protectionLevel: .active)
            let bytes = try #require(Base64URL.decode(text))
            let idLength = Int(bytes[2])
            for index in bytes.indices {
                var changed = bytes
                changed[index] ^= 1
                let expected: Set<String> =
                    switch index {
                    case 0, 2: ["malformed", "wrongEnrolment"]
                    // Another level's key, which is open too, does not fit.
                    case 1: ["integrity"]
                    case 3..<3 + idLength: ["wrongEnrolment", "malformed"]
                    default: ["integrity"]
                    }
                let error = #expect(throws: ProtectionError.self) {
                    try program.locker.decrypt(encryptedSecret: Base64URL.encode(changed))
                }
                #expect(
                    expected.contains(error?.code.description ?? ""),
                    "byte \(index): \(String(describing: error))")
            }
            for broken in [
                "", "A", text + "A", text + "=", "!" + text.dropFirst(), String(text.prefix(40)),
            ] {
                #expect(throws: ProtectionError.self) {
                    try program.locker.decrypt(encryptedSecret: broken)
                }
            }
            for count in 0..<bytes.count {
                #expect(throws: ProtectionError.self) {
                    try program.locker.decrypt(
                        encryptedSecret: Base64URL.encode(bytes.prefix(count)))
                }
            }
        }
    }

    @Test func `any text is restored, and no two encryptions are equal`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start()
            _ = try await program.locker.startAuthSession()
            for secret in ["", "x", "žluťoučký 🐎\n\0", String(repeating: "a", count: 1 << 20)] {
                let texts = try (0..<2).map { _ in
                    try program.locker.encrypt(secret: secret, protectionLevel: .base)
                }
                #expect(texts[0] != texts[1])
                #expect(
                    try texts.map { try program.locker.decrypt(encryptedSecret: $0) } == [
                        secret, secret,
                    ])
            }
            #expect(throws: ProtectionError.tooLong) {
                try program.locker.encrypt(
                    secret: String(repeating: "a", count: 1 << 20 + 1), protectionLevel: .base)
            }
        }
    }

    @Test func `ten thousand calls on open levels use no hardware`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start()
            _ = try await program.locker.startAuthSession()
            let sent = scene.line.sent.count
            program.keystore.forget()
            for index in 0..<2_500 {
                for level in ProtectionLevel.allCases {
                    let text = try program.locker.encrypt(
                        secret: "secret \(index)", protectionLevel: level)
                    #expect(try program.locker.decrypt(encryptedSecret: text) == "secret \(index)")
                }
            }
            #expect(program.keystore.calls.isEmpty)
            #expect(scene.line.sent.count == sent)
        }
    }

    @Test func `another enrolment decrypts nothing`() async throws {
        try await Scene.with { scene in
            let program = try await scene.start()
            _ = try await program.locker.startAuthSession()
            let texts = program.sealAll()
            _ = try await program.locker.endAuthSession(mode: .destroy)
            _ = try await program.locker.startAuthSession()
            #expect(program.phase == .activeViaStrongAuth)
            for text in texts.values {
                #expect(throws: ProtectionError.wrongEnrolment) {
                    try program.locker.decrypt(encryptedSecret: text)
                }
            }
        }
    }

    /// Without shares, only the program protects two levels. The configuration must allow that.
    @Test func `a server without shares is refused, or accepted if configured`() async throws {
        try await Scene.with(locker: ["level_shares": false]) { scene in
            let strict = try await scene.start()
            await #expect(throws: refusal(.invalidConfiguration)) {
                try await strict.locker.startAuthSession()
            }
            #expect(await scene.channel.requests.isEmpty)
            let program = try await scene.start { $0.levelShares = .whenOffered }
            #expect(try await program.locker.startAuthSession().phase == .activeViaStrongAuth)
            let texts = program.sealAll()
            _ = try await program.locker.endAuthSession(mode: .lock)
            #expect(program.readable(texts) == [.base])
            _ = try await program.locker.backgroundAccess()
            #expect(program.readable(texts) == [.base, .background])
            _ = try await program.locker.startAuthSession()
            #expect(program.readable(texts) == Set(ProtectionLevel.allCases))
        }
    }

    @Test func `shares of another enrolment open nothing`() throws {
        let keys = Dictionary(
            uniqueKeysWithValues: ProtectionLevel.allCases.map { ($0, LevelKey.random()) })
        let device = SecretBytes.random(count: 32)
        let share = String(repeating: "A", count: 43)
        func shares(_ background: String, _ active: String) throws -> LevelKeyShares {
            try JSONDecoder().decode(
                LevelKeyShares.self,
                from: Data(#"{"background":"\#(background)","active":"\#(active)"}"#.utf8))
        }
        let right = try shares(share, "B" + share.dropFirst())
        let wraps = try LevelWraps(
            keys, deviceSecret: device, shares: right, enrolmentID: "enrolment-1")
        let opened = try wraps.open(
            .active, deviceSecret: device, share: right.active, enrolmentID: "enrolment-1")
        #expect(opened == [.active: keys[.active], .offline: keys[.offline]])
        #expect(throws: (any Error).self) {
            try wraps.open(
                .active, deviceSecret: device, share: right.background, enrolmentID: "enrolment-1")
        }
        #expect(throws: (any Error).self) {
            try wraps.open(
                .background, deviceSecret: device, share: right.active, enrolmentID: "enrolment-1")
        }
        #expect(throws: (any Error).self) {
            try wraps.open(.active, deviceSecret: device, share: nil, enrolmentID: "enrolment-1")
        }
        #expect(throws: (any Error).self) {
            try wraps.open(
                .active, deviceSecret: device, share: right.active, enrolmentID: "enrolment-2")
        }
        #expect(throws: (any Error).self) {
            try wraps.open(
                .active, deviceSecret: .random(count: 32), share: right.active,
                enrolmentID: "enrolment-1")
        }
    }
}
