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

    @Test func `a key for derivation agrees with another key and does not sign`() async throws {
        let token = try await TokenBench.token()
        let pin = try TokenBench.pin()
        let own = P256.KeyAgreement.PrivateKey()
        let peer = try PublicKey(x963Representation: own.publicKey.x963Representation)
        let (key, secret) = try await token.withSession { session throws(CryptokiError) in
            try session.login(.user, with: pin)
            let key = try session.generateKeyPair(TokenBench.request(.derive))
            try session.selfTest(key)
            return (key, try session.sharedSecret(of: key, with: peer))
        }
        let theirs = try P256.KeyAgreement.PublicKey(
            x963Representation: key.publicKey.x963Representation)
        let expected = try own.sharedSecretFromKeyAgreement(with: theirs)
        #expect(secret == SecretBytes(expected.withUnsafeBytes { Array($0) }))
        let left = try await token.withSession { session throws(CryptokiError) in
            try session.objects(.secretKey)
        }
        #expect(left.isEmpty)
        let error = await cryptokiError { () throws(CryptokiError) in
            _ = try await token.withSession { session throws(CryptokiError) in
                try session.sign(TokenBench.digest, with: try session.key(id: key.id))
            }
        }
        #expect(error?.returnValue == .keyFunctionNotPermitted)
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

    @Test func `a private key is hidden without a login, and a public one signs without it`()
        async throws
    {
        let token = try await TokenBench.token()
        let pin = try TokenBench.pin()
        let (privateRequest, publicRequest) = (
            TokenBench.request(), TokenBench.request(isPrivate: false)
        )
        try await token.withSession { session throws(CryptokiError) in
            try session.login(.user, with: pin)
            _ = try session.generateKeyPair(privateRequest)
            _ = try session.generateKeyPair(publicRequest)
            try session.logout()
        }
        let signature = try await token.withSession { session throws(CryptokiError) in
            try session.sign(TokenBench.digest, with: try session.key(id: publicRequest.id))
        }
        #expect(signature.rawRepresentation.count == 64)
        let error = await cryptokiError { () throws(CryptokiError) in
            _ = try await token.withSession { session throws(CryptokiError) in
                try session.key(id: privateRequest.id)
            }
        }
        #expect(error?.kind == .keyAbsent)
    }

    @Test func `a key that always authenticates requires a proof for each signature`() async throws
    {
        let token = try await TokenBench.token()
        let pin = try TokenBench.pin()
        let request = TokenBench.request(alwaysAuthenticates: true)
        let key = try await token.withSession { session throws(CryptokiError) in
            try session.login(.user, with: pin)
            let key = try session.generateKeyPair(request)
            try session.selfTest(key, with: pin)
            return key
        }
        #expect(key.attributes.alwaysAuthenticates == true)
        let missing = await cryptokiError { () throws(CryptokiError) in
            _ = try await token.withSession { session throws(CryptokiError) in
                try session.sign(TokenBench.digest, with: try session.key(id: request.id))
            }
        }
        #expect(missing?.kind == .loginNeeded)
        let wrong = LoginProof.pin(try PIN("wrong"))
        let refused = await cryptokiError { () throws(CryptokiError) in
            _ = try await token.withSession { session throws(CryptokiError) in
                try session.sign(
                    TokenBench.digest, with: try session.key(id: request.id), proof: wrong)
            }
        }
        #expect(refused?.returnValue == .pinIncorrect)
        // The signature with the wrong proof is still active in the session, which is replaced.
        let signature = try await token.withSession { session throws(CryptokiError) in
            try session.login(.user, with: pin)
            return try session.sign(
                TokenBench.digest, with: try session.key(id: request.id), proof: pin)
        }
        #expect(key.publicKey.isValid(signature, for: TokenBench.digest))
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

    @Test func `both halves are deleted, and a missing key is not an error`() async throws {
        let token = try await TokenBench.token()
        let pin = try TokenBench.pin()
        let request = TokenBench.request()
        let isOccupied = try await token.withSession { session throws(CryptokiError) in
            try session.login(.user, with: pin)
            _ = try session.generateKeyPair(request)
            try session.destroyKey(id: request.id)
            try session.destroyKey(id: request.id)
            return try session.isOccupied(id: request.id)
        }
        #expect(!isOccupied)
    }

    @Test func `the user changes the PIN, and the security officer replaces it`() async throws {
        let token = try await TokenBench.token()
        let pin = try TokenBench.pin()
        let (second, third) = (LoginProof.pin(try PIN("second")), LoginProof.pin(try PIN("third")))
        let officer = LoginProof.secret(
            SecretBytes(try SoftwareToken.current.securityOfficerPIN.utf8))
        try await token.withSession { session throws(CryptokiError) in
            try session.login(.user, with: pin)
            try session.setPIN(from: pin, to: second)
            try session.login(.user, with: second)
            try session.login(.securityOfficer, with: officer)
            try session.initializePIN(third)
            try session.login(.user, with: third)
        }
        let error = await cryptokiError { () throws(CryptokiError) in
            try await token.withSession { session throws(CryptokiError) in
                try session.login(.user, with: second)
            }
        }
        #expect(error?.returnValue == .pinIncorrect)
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
