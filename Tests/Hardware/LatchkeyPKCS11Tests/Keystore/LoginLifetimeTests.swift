import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import Testing

@testable import LatchkeyPKCS11

/// The lifetime of a login.
@Suite(.softwareToken, .timeLimit(.minutes(15)))
struct LoginLifetimeTests {
    @Test func `after a use with a PIN there is no login`() async throws {
        let keystore = try KeystoreBench.keystore()
        let key = try await KeystoreBench.key(on: keystore, .pin)
        _ = try await KeystoreBench.sign(with: key, on: keystore)
        let state = try await KeystoreBench.withSession { (session) throws(CryptokiError) in
            try session.loggedInRole()
        }
        #expect(state == nil)
    }

    @Test func `after a refused PIN there is no login`() async throws {
        let keystore = try KeystoreBench.keystore()
        let key = try await KeystoreBench.key(on: keystore, .pin)
        let error = try await KeystoreBench.error {
            _ = try await KeystoreBench.sign(
                with: key, on: keystore, ScriptedPresence(pins: "incorrect"))
        }
        #expect(error.code == .wrongProof)
        #expect(error.underlying?.rawCode == 0xa0)
        let state = try await KeystoreBench.withSession { (session) throws(CryptokiError) in
            try session.loggedInRole()
        }
        #expect(state == nil)
    }

    @Test func `a proof is reused for its reuse time and no longer`() async throws {
        let keystore = try KeystoreBench.keystore()
        let policy = try #require(AccessPolicy(.pin, reuseSeconds: 2))
        let presence = ScriptedPresence(pins: "correct", "correct", "correct")
        let start = ContinuousClock.now
        let key = try await KeystoreBench.key(on: keystore, policy, label: nil, presence)
        _ = try await KeystoreBench.sign(with: key, on: keystore, presence)
        // On a machine that needed two seconds for that, the second prompt is correct.
        if ContinuousClock.now - start < .seconds(2) { #expect(presence.requests.count == 1) }
        let prompts = presence.requests.count
        try await Task.sleep(for: .seconds(2))
        _ = try await KeystoreBench.sign(with: key, on: keystore, presence)
        #expect(presence.requests.count == prompts + 1)
    }

    @Test func `the login ends when the reuse time is over`() async throws {
        let keystore = try KeystoreBench.keystore()
        let policy = try #require(AccessPolicy(.pin, reuseSeconds: 1))
        _ = try await KeystoreBench.key(on: keystore, policy)
        let isEnded = try await poll {
            try await KeystoreBench.withSession { (session) throws(CryptokiError) in
                try session.loggedInRole()
            } == nil
        }
        #expect(isEnded)
    }

    @Test func `the login ends when reuse is ended, on the token too`() async throws {
        let keystore = try KeystoreBench.keystore()
        _ = try await KeystoreBench.key(on: keystore, try #require(KeystoreBench.reusing))
        let kept = try await KeystoreBench.withSession { (session) throws(CryptokiError) in
            try session.loggedInRole()
        }
        #expect(kept == .user)
        keystore.endReuse()
        let isEnded = try await poll {
            try await KeystoreBench.withSession { (session) throws(CryptokiError) in
                try session.loggedInRole()
            } == nil
        }
        #expect(isEnded)
    }

    @Test func `a keystore that has not used the token ends the login of another one`()
        async throws
    {
        let keystore = try KeystoreBench.keystore()
        let policy = try #require(KeystoreBench.reusing)
        let key = try await KeystoreBench.key(on: keystore, policy)
        try KeystoreBench.keystore().endReuse()
        let presence = ScriptedPresence(pins: "correct")
        _ = try await KeystoreBench.sign(with: key, on: keystore, presence)
        #expect(presence.requests.count == 1)
    }

    @Test func `the end of all logins reaches a keystore that no longer exists`() async throws {
        // In another process, because it ends the logins of all tests.
        await #expect(processExitsWith: .success) {
            let token = try await SoftwareToken(userPIN: "correct")
            let policy = try #require(KeystoreBench.reusing)
            let key = try await KeystoreBench.key(on: PKCS11Keystore(uri: token.uri), policy)
            PKCS11Keystore.endAllReuse()
            let presence = ScriptedPresence(pins: "correct")
            _ = try await KeystoreBench.sign(
                with: key, on: PKCS11Keystore(uri: token.uri), presence)
            try #require(presence.requests.count == 1)
        }
    }

    @Test func `a URI ends only the logins on tokens that it may mean`() throws {
        let token = try TokenURI("pkcs11:token=a;serial=1?module-path=/usr/bin/env")
        let path = try Module.resolve("/usr/bin/env")
        for (text, mayMean) in [
            ("pkcs11:", true), ("pkcs11:token=a", true), ("pkcs11:token=a;serial=1", true),
            ("pkcs11:token=a?module-name=any", true), ("pkcs11:token=b", false),
            ("pkcs11:token=a;serial=2", false), ("pkcs11:token=a?module-path=/bin/sh", false),
            ("pkcs11:token=a?module-path=/usr/bin/env", true),
        ] {
            #expect(try TokenURI(text).mayMean(token, in: path) == mayMean, "\(text)")
        }
    }

    @Test func `a kept login does not open a key that requires a PIN for each use`() async throws {
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

    @Test func `a kept login that another program ended prompts again`() async throws {
        let keystore = try KeystoreBench.keystore()
        let policy = try #require(KeystoreBench.reusing)
        let key = try await KeystoreBench.key(on: keystore, policy)
        try await KeystoreBench.withSession { (session) throws(CryptokiError) in
            try session.logout()
        }
        let presence = ScriptedPresence(pins: "correct")
        let signature = try await KeystoreBench.sign(with: key, on: keystore, presence)
        #expect(presence.requests.count == 1)
        #expect(key.publicKey.isValid(signature, for: KeystoreBench.digest))
    }

    @Test func `a PIN of an impossible length is not sent`() async throws {
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
