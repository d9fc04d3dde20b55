import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import Testing

@testable import LatchkeyPKCS11

/// How long a PIN serves.
@Suite(.softwareToken, .timeLimit(.minutes(15)))
struct LoginLifetimeTests {
    @Test func `after a use with a PIN nobody is logged in`() async throws {
        let keystore = try KeystoreBench.keystore()
        let key = try await KeystoreBench.key(on: keystore, .pin)
        _ = try await KeystoreBench.sign(with: key, on: keystore)
        let state = try await KeystoreBench.perform { (session) throws(CryptokiError) in try session.loginState() }
        #expect(state == .nobody)
    }

    @Test func `after a refused PIN nobody is logged in`() async throws {
        let keystore = try KeystoreBench.keystore()
        let key = try await KeystoreBench.key(on: keystore, .pin)
        let error = try await KeystoreBench.error {
            _ = try await KeystoreBench.sign(with: key, on: keystore, ScriptedPresence(pins: "incorrect"))
        }
        #expect(error.code == .wrongProof)
        #expect(error.underlying?.rawCode == 0xa0)
        let state = try await KeystoreBench.perform { (session) throws(CryptokiError) in try session.loginState() }
        #expect(state == .nobody)
    }

    @Test func `a proof serves for its time of reuse, and no longer`() async throws {
        let keystore = try KeystoreBench.keystore()
        let policy = try #require(AccessPolicy(.pin, reuseSeconds: 2))
        let presence = ScriptedPresence(pins: "correct", "correct")
        let start = ContinuousClock.now
        let key = try await KeystoreBench.key(on: keystore, policy, label: nil, presence)
        let born = ContinuousClock.now
        _ = try await KeystoreBench.sign(with: key, on: keystore, presence)
        // On a machine that took two seconds for that, the second question is right.
        if ContinuousClock.now - start < .seconds(2) { #expect(presence.requests.count == 1) }
        try await Task.sleep(until: born + .seconds(2), clock: .continuous)
        _ = try await KeystoreBench.sign(with: key, on: keystore, presence)
        #expect(presence.requests.count == 2)
    }

    @Test func `the login ends by itself when the time is over`() async throws {
        let keystore = try KeystoreBench.keystore()
        let policy = try #require(AccessPolicy(.pin, reuseSeconds: 1))
        _ = try await KeystoreBench.key(on: keystore, policy)
        let deadline = ContinuousClock.now + .seconds(20)
        var state = LoginState.user
        while state == .user, ContinuousClock.now < deadline {
            try await Task.sleep(for: .milliseconds(20))
            state = try await KeystoreBench.perform { (session) throws(CryptokiError) in try session.loginState() }
        }
        #expect(state == .nobody)
    }

    @Test func `the login ends when reuse is ended, on the token too`() async throws {
        let keystore = try KeystoreBench.keystore()
        _ = try await KeystoreBench.key(on: keystore, try #require(KeystoreBench.reusing))
        let kept = try await KeystoreBench.perform { (session) throws(CryptokiError) in try session.loginState() }
        #expect(kept == .user)
        keystore.endReuse()
        let deadline = ContinuousClock.now + .seconds(20)
        var state = LoginState.user
        while state == .user, ContinuousClock.now < deadline {
            try await Task.sleep(for: .milliseconds(20))
            state = try await KeystoreBench.perform { (session) throws(CryptokiError) in try session.loginState() }
        }
        #expect(state == .nobody)
    }

    @Test func `a kept login opens no key that wants a PIN at each use`() async throws {
        let keystore = try KeystoreBench.keystore()
        let policy = try #require(KeystoreBench.reusing)
        let strict = try await KeystoreBench.key(on: keystore, .pin)
        let lax = try await KeystoreBench.key(on: keystore, policy)
        let presence = ScriptedPresence(pins: "incorrect")
        let error = try await KeystoreBench.error {
            _ = try await KeystoreBench.sign(with: strict, on: keystore, presence)
        }
        #expect(error.code == .wrongProof)
        #expect(presence.requests.count == 1)
        let again = ScriptedPresence(pins: "correct")
        _ = try await KeystoreBench.sign(with: lax, on: keystore, again)
        #expect(again.requests.count == 1, "a wrong proof ends what was kept")
    }

    @Test func `a kept login is asked for again when somebody else ended it`() async throws {
        let keystore = try KeystoreBench.keystore()
        let policy = try #require(KeystoreBench.reusing)
        let key = try await KeystoreBench.key(on: keystore, policy)
        try await KeystoreBench.perform { (session) throws(CryptokiError) in try session.logout() }
        let presence = ScriptedPresence(pins: "correct")
        let signature = try await KeystoreBench.sign(with: key, on: keystore, presence)
        #expect(presence.requests.count == 1)
        #expect(key.publicKey.isValid(signature, for: KeystoreBench.digest))
    }

    @Test func `a PIN that the token can't have is not sent`() async throws {
        let keystore = try KeystoreBench.keystore()
        let key = try await KeystoreBench.key(on: keystore, .pin)
        let long = String(repeating: "7", count: 256)
        let error = try await KeystoreBench.error {
            _ = try await KeystoreBench.sign(with: key, on: keystore, ScriptedPresence(pins: long))
        }
        #expect(error.code == .wrongProof)
        #expect(error.underlying == nil)
    }
}
