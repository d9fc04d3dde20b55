import Crypto
import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import Testing

@testable import LatchkeyPKCS11

/// The calls of a session on SoftHSM2.
@Suite(.requires(program: "softhsm2-util"), .softwareToken)
struct SessionTests {
    @Test func `a key is generated on the token, is reported as such, and signs`() async throws {
        let token = try await TokenBench.token()
        let pin = try TokenBench.pin()
        let request = TokenBench.request()
        let (key, signature, derives) = try await token.withSession {
            session throws(CryptokiError) in
            try session.login(.user, with: pin)
            let key = try session.generateKeyPair(request)
            try session.selfTest(key)
            // CKA_DERIVE
            return (
                key, try session.sign(TokenBench.digest, with: key),
                try session.flag(0x10c, of: key.handle)
            )
        }
        #expect(key.publicKey.isValid(signature, for: TokenBench.digest))
        #expect(key.id == request.id)
        #expect(key.label == "latchkey test")
        #expect(key.attributes.isPrivate == true)
        #expect(key.attributes.isSensitive == true)
        #expect(key.attributes.isExtractable == false)
        #expect(key.attributes.wasNeverExtractable == true)
        #expect(key.attributes.isLocal == true)
        #expect(key.attributes.alwaysAuthenticates == false)
        #expect(key.attributes.signs == true)
        #expect(derives == false)
    }

    @Test func `a wrong PIN is sent to the token even while there is a login`() async throws {
        let token = try await TokenBench.token()
        let pin = try TokenBench.pin()
        let wrong = LoginProof.pin(try PIN("wrong"))
        let error = await cryptokiError { () throws(CryptokiError) in
            try await token.withSession { session throws(CryptokiError) in
                try session.login(.user, with: pin)
                try session.login(.user, with: wrong)
            }
        }
        #expect(error?.returnValue == .pinIncorrect)
        #expect(error?.function == "C_Login")
        let state = try await token.withSession { session throws(CryptokiError) in
            try session.loggedInRole()
        }
        #expect(state == nil)
    }

    @Test func `a key never overwrites another one`() async throws {
        let token = try await TokenBench.token()
        let pin = try TokenBench.pin()
        let request = TokenBench.request()
        let first = try await token.withSession { session throws(CryptokiError) in
            try session.login(.user, with: pin)
            return try session.generateKeyPair(request)
        }
        let error = await cryptokiError { () throws(CryptokiError) in
            _ = try await token.withSession { session throws(CryptokiError) in
                try session.generateKeyPair(request)
            }
        }
        #expect(error?.kind == .occupied)
        let kept = try await token.withSession { session throws(CryptokiError) in
            try session.key(id: request.id)
        }
        #expect(kept.publicKey == first.publicKey)
    }

    @Test func `keys are listed and found by label, and two with the same label are an error`()
        async throws
    {
        let token = try await TokenBench.token()
        let pin = try TokenBench.pin()
        let (first, second) = (TokenBench.request(), TokenBench.request())
        let keys = try await token.withSession { session throws(CryptokiError) in
            try session.login(.user, with: pin)
            _ = try session.generateKeyPair(first)
            let found = try session.key(id: nil, label: first.label)
            _ = try session.generateKeyPair(second)
            return try session.visibleKeys().map(\.id) + [found.id]
        }
        #expect(Set(keys.dropLast()) == [first.id, second.id])
        #expect(keys.last == first.id)
        let error = await cryptokiError { () throws(CryptokiError) in
            _ = try await token.withSession { session throws(CryptokiError) in
                try session.key(id: nil, label: first.label)
            }
        }
        #expect(error?.kind == .keyAmbiguous)
    }

    @Test func `the token's information is read`() async throws {
        let token = try await TokenBench.token()
        let (information, hasECDSA, hasNone) = try await token.withSession {
            session throws(CryptokiError) in
            (
                try session.tokenInformation(), try session.supports(.ecdsa),
                try session.supports(Mechanism(rawValue: 0x8000_1234))
            )
        }
        #expect(information.label == "Latchkey")
        #expect(information.serial == (try SoftwareToken.current.serial))
        #expect(
            information.flags.isSuperset(of: [.initialized, .loginRequired, .userPINInitialized]))
        #expect(information.flagWords == ["login required"])
        #expect(information.pinLength == 4...255)
        #expect(hasECDSA)
        #expect(!hasNone)
        #expect(token.module.profile == .softhsm)
    }

    @Test func `a file has one module object, and a token one token object`() async throws {
        let (first, second) = (try await TokenBench.token(), try await TokenBench.token())
        #expect(first === second)
        let module = try await Module.load(SoftwareToken.current.modulePath)
        #expect(module === first.module)
    }
}
