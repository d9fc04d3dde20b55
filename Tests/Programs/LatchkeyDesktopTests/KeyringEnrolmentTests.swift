import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import LatchkeyDesktop

/// Enabling and disabling with the real gnome-keyring-daemon.
@Suite(.requires(program: "gnome-keyring-daemon"))
struct KeyringEnrolmentTests {
    private static let password = KeyringUser.password

    private struct World {
        let user: KeyringUser
        let service: SignInServiceDouble
        let enrolment: KeyringEnrolment

        /// Whether the keyring opens with a secret.
        func opens(_ secret: SecretBytes) throws -> Bool {
            try user.keyring.unlock(secret, until: .now + hangLimit) == .done
        }

        var record: SignInRecord? {
            get throws { try service.store.read(user: SignInServiceDouble.user) }
        }
    }

    /// Runs `body` with a login keyring that has the login password.
    private static func withWorld(
        keyring password: String = "login-password", _ body: (World) async throws -> Void
    ) async throws {
        let user = try KeyringUser()
        try await user.createKeyring(password: password)
        try await whileRunning(user.startDaemon()) {
            let service = try SignInServiceDouble()
            let keyring = KillableKeyring(keyring: user.keyring, service: service)
            try await body(
                World(
                    user: user, service: service,
                    enrolment: KeyringEnrolment(service: service, keyring: keyring)))
        }
    }

    private static func enable(_ world: World) throws -> KeyringEnrolment.Outcome {
        try world.enrolment.enable(password: password, proof: try SignInServiceDouble.proof)
    }

    @Test func `enabling gives the keyring the secret, disabling the login password`() async throws
    {
        try await Self.withWorld { world in
            #expect(try Self.enable(world) == .done)
            #expect(try world.record?.state == .active)
            #expect(try !world.opens(Self.password))
            let secret = try #require(try world.record?.open(password: Self.password)).secret
            #expect(try world.opens(KeyringText.hexadecimal(secret)))
            #expect(try Self.enable(world) == .unchanged)
            #expect(try world.enrolment.disable(password: Self.password) == .done)
            #expect(try world.opens(Self.password))
            #expect(try world.record == nil)
            #expect(throws: CommonError.of(.notFound)) {
                try world.enrolment.disable(password: Self.password)
            }
        }
    }

    @Test func `after a kill at each step, one of both opens and enabling continues`() async throws
    {
        try await Self.withWorld { world in
            var kills = 0
            while true {
                world.service.kill(after: kills)
                let outcome = Result { try Self.enable(world) }
                world.service.kill(after: nil)
                let secret = try world.record?.open(password: Self.password)?.secret
                let opens = try (
                    world.opens(Self.password),
                    secret.map { try world.opens(KeyringText.hexadecimal($0)) } ?? false
                )
                #expect(opens.0 != opens.1, "killed after \(kills) steps")
                if case .success(let outcome) = outcome {
                    #expect(outcome == .done)
                    break
                }
                #expect(try Self.enable(world) == (secret == nil ? .done : .continued))
                #expect(try world.record?.state == .active)
                #expect(try !world.opens(Self.password))
                _ = try world.enrolment.disable(password: Self.password)
                #expect(try world.opens(Self.password))
                kills += 1
            }
            // The record, before and after the change, and the activation.
            #expect(kills == 4)
        }
    }

    @Test func `after a kill at each step of disabling, one of both opens and it continues`()
        async throws
    {
        try await Self.withWorld { world in
            var kills = 0
            while true {
                _ = try Self.enable(world)
                world.service.kill(after: kills)
                let outcome = Result { try world.enrolment.disable(password: Self.password) }
                world.service.kill(after: nil)
                let secret = try world.record?.open(password: Self.password)?.secret
                let opens = try (
                    world.opens(Self.password),
                    secret.map { try world.opens(KeyringText.hexadecimal($0)) } ?? false
                )
                #expect(opens.0 != opens.1, "killed after \(kills) steps")
                if case .success = outcome { break }
                #expect(
                    try world.enrolment.disable(password: Self.password)
                        == (opens.0 ? .continued : .done))
                #expect(try world.record == nil)
                #expect(try world.opens(Self.password))
                kills += 1
            }
            #expect(kills == 3)
        }
    }

    @Test func `a keyring with another password is not touched, and nothing is stored`()
        async throws
    {
        try await Self.withWorld(keyring: "other") { world async throws in
            #expect(throws: CommonError.of(.wrongProof)) { try Self.enable(world) }
            #expect(try world.record == nil)
            #expect(try world.opens(SecretBytes("other".utf8)))
        }
    }

    /// Another program enrols a secret that it knows while the user types the login password.
    @Test func `a record that appears while the user types is not taken`() async throws {
        try await Self.withWorld { world in
            let proof = try SignInServiceDouble.proof
            let other = SecretBytes("other".utf8)
            let secret = SecretBytes.random(count: 32)
            _ = try world.service.enrol(.gnome, secret: secret, password: other, proof: proof)
            let stored = try world.record
            #expect(throws: CommonError.of(.conflict)) {
                try world.enrolment.enable(nil, password: Self.password, proof: .finger)
            }
            #expect(throws: CommonError.of(.conflict)) {
                try world.enrolment.enableWithoutKeyring(
                    nil, password: Self.password, proof: .finger)
            }
            #expect(throws: CommonError.of(.conflict)) {
                try world.enrolment.enableWallet(
                    nil, key: .random(count: 56), password: Self.password, proof: .finger)
            }
            #expect(try world.record == stored)
            let seen = try world.service.status().record
            try world.service.activate(generation: 1)
            #expect(throws: CommonError.of(.conflict)) {
                try world.enrolment.enable(seen, password: Self.password, proof: .finger)
            }
            #expect(try world.record?.generation == 2)
            #expect(try world.opens(Self.password))
        }
    }

    @Test func `a secret that the PIN no longer opens is sealed again`() async throws {
        try await Self.withWorld { world in
            _ = try Self.enable(world)
            for state in [SignInRecord.State.active, .pending] {
                var record = try #require(try world.record)
                record.sealed = nil
                record.state = state
                _ = try world.service.store.write(record)
                #expect(try Self.enable(world) == .continued)
                #expect(try world.record?.sealed == [2])
                #expect(try world.record?.state == .active)
            }
        }
    }

    @Test func `after a password change without the old one, the PIN adds a copy`() async throws {
        try await Self.withWorld { world in
            _ = try Self.enable(world)
            let new = SecretBytes("new password".utf8)
            let proof = try SignInServiceDouble.proof
            #expect(try world.enrolment.enable(password: new, proof: proof) == .continued)
            #expect(try world.record?.open(password: Self.password) != nil, "it was not removed")
            #expect(try world.enrolment.enable(password: new, proof: proof) == .unchanged)
            #expect(try world.enrolment.disable(password: new) == .done)
            #expect(try world.opens(new))
        }
    }

    /// As root can do it after it set a new password.
    @Test func `after root ended the sign-in, the PIN adds a copy under a new password`()
        async throws
    {
        try await Self.withWorld { world in
            _ = try Self.enable(world)
            var record = try #require(try world.record)
            record.endSignIn()
            _ = try world.service.store.write(record)
            let new = SecretBytes("new password".utf8)
            let proof = try SignInServiceDouble.proof
            #expect(try world.enrolment.enable(password: new, proof: proof) == .continued)
            #expect(try world.record?.provableSeal == [2])
            #expect(try world.enrolment.disable(password: new) == .done)
            #expect(try world.opens(new))
        }
    }

    @Test func `if neither secret opens the keyring, the record stays`() async throws {
        try await Self.withWorld { world in
            _ = try Self.enable(world)
            let before = try world.record
            let secret = try #require(try before?.open(password: Self.password)).secret
            #expect(
                try world.user.keyring.change(
                    from: KeyringText.hexadecimal(secret), to: SecretBytes("other".utf8),
                    until: .now + hangLimit) == .done)
            #expect(throws: CommonError.of(.wrongState)) { try Self.enable(world) }
            #expect(throws: CommonError.of(.wrongState)) {
                try world.enrolment.disable(password: Self.password)
            }
            #expect(try world.record == before)
        }
    }

    @Test func `the recovery text gives the keyring back without the service`() async throws {
        try await Self.withWorld { world in
            _ = try Self.enable(world)
            let text = try world.enrolment.recoveryText(password: Self.password)
            #expect(throws: CommonError.of(.wrongProof)) {
                try world.enrolment.recoveryText(password: SecretBytes("wrong".utf8))
            }
            let wrong = KeyringText.recovery(of: .random(count: 32))
            #expect(throws: CommonError.of(.wrongProof)) {
                try world.enrolment.recover(with: wrong, password: Self.password)
            }
            #expect(throws: CommonError.of(.invalidInput)) {
                try world.enrolment.recover(
                    with: SecretBytes("0123".utf8), password: Self.password)
            }
            try world.enrolment.recover(with: text, password: Self.password)
            #expect(try world.opens(Self.password))
            // The record is removed then, without another change.
            #expect(try world.enrolment.disable(password: Self.password) == .continued)
            #expect(try world.opens(Self.password))
        }
    }

    @Test func `without a keyring there is only the record, and a kill at each step continues`()
        throws
    {
        let service = try SignInServiceDouble()
        let enrolment = KeyringEnrolment(service: service, keyring: try KeyringUser().keyring)
        let proof = try SignInServiceDouble.proof
        func enable(with password: SecretBytes = Self.password) throws
            -> KeyringEnrolment.Outcome
        {
            try enrolment.enableWithoutKeyring(password: password, proof: proof)
        }
        var kills = 0
        while true {
            service.kill(after: kills)
            let outcome = Result { try enable() }
            service.kill(after: nil)
            if case .success(let outcome) = outcome {
                #expect(outcome == .done)
                break
            }
            let isStored = try service.status().record != nil
            #expect(try enable() == (isStored ? .continued : .done))
            #expect(try service.status().record?.state == .active)
            _ = try enrolment.disable(password: Self.password)
            kills += 1
        }
        // The record, and the activation.
        #expect(kills == 2)
        #expect(try service.status().record?.kind == .withoutKeyring)
        #expect(try enable() == .unchanged)
        #expect(throws: CommonError.of(.wrongState)) {
            try enrolment.enable(password: Self.password, proof: proof)
        }
        #expect(throws: CommonError.of(.wrongState)) {
            try enrolment.enableWallet(
                key: .random(count: 56), password: Self.password, proof: proof)
        }
        #expect(throws: CommonError.of(.wrongState)) {
            try enrolment.recoveryText(password: Self.password)
        }
        let new = SecretBytes("new password".utf8)
        #expect(try enable(with: new) == .continued)
        #expect(try enrolment.disable(password: new) == .done)
        #expect(try service.status().record == nil)
    }

    @Test func `a KWallet's key is stored as it is, and needs no change`() throws {
        let service = try SignInServiceDouble()
        let user = try KeyringUser()
        let enrolment = KeyringEnrolment(service: service, keyring: user.keyring)
        let key = SecretBytes.random(count: 56)
        let proof = try SignInServiceDouble.proof
        #expect(
            try enrolment.enableWallet(key: key, password: Self.password, proof: proof) == .done)
        #expect(try service.release(password: Self.password) == key)
        #expect(
            try enrolment.enableWallet(key: key, password: Self.password, proof: proof)
                == .unchanged)
        // The wallet's password was changed, for example in KDE's settings.
        #expect(throws: CommonError.of(.wrongState)) {
            try enrolment.enableWallet(
                key: .random(count: 56), password: Self.password, proof: proof)
        }
        #expect(throws: CommonError.of(.wrongState)) {
            try enrolment.recoveryText(password: Self.password)
        }
        #expect(try enrolment.disable(password: Self.password) == .done)
        #expect(try service.status().record == nil)
    }
}
