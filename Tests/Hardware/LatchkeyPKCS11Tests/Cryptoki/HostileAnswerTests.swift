import FoundationEssentials
import Latchkey
import LatchkeyTesting
import Testing

@testable import LatchkeyPKCS11

/// Invalid answers of a module: each is an error, and no memory outside the buffers is read.
@Suite(.requires(program: "softhsm2-util"), .softwareToken)
struct HostileAnswerTests {
    private static let huge = "0x7fffffffffffffff"
    private static let negative = "0xffffffffffffffff"

    private func makeKey(_ token: Token) async throws -> (id: Data, pin: LoginProof) {
        let pin = try TokenBench.pin()
        let request = TokenBench.request()
        try await token.withSession { session throws(CryptokiError) in
            try session.login(.user, with: pin)
            _ = try session.generateKeyPair(request)
        }
        return (request.id, pin)
    }

    /// Finds the key and signs, with a module that lies from then on.
    private func sign(told rules: String) async throws -> CryptokiError? {
        let hostile = try HostileToken()
        let token = try await hostile.token()
        let (id, pin) = try await makeKey(token)
        try hostile.tell(rules)
        return await cryptokiError { () throws(CryptokiError) in
            _ = try await token.withSession { session throws(CryptokiError) in
                try session.login(.user, with: pin)
                return try session.sign(TokenBench.digest, with: try session.key(id: id))
            }
        }
    }

    @Test(arguments: ["0", "63", "65", huge, negative])
    func `a signature of a wrong length`(_ length: String) async throws {
        let error = try await sign(told: "C_Sign length \(length)")
        #expect(error?.kind == .malformed)
        #expect(error?.function == "C_Sign")
    }

    @Test(arguments: ["65", huge, negative])
    func `more objects than requested`(_ count: String) async throws {
        let error = try await sign(told: "C_FindObjects length \(count)")
        #expect(error?.kind == .malformed)
        #expect(error?.function == "C_FindObjects")
    }

    @Test func `an unlimited number of objects`() async throws {
        let error = try await sign(told: "C_FindObjects length 64")
        #expect(error?.kind == .malformed)
    }

    @Test func `an attribute longer than its buffer`() async throws {
        let error = try await sign(told: "C_GetAttributeValue length \(Self.huge)")
        #expect(error?.kind == .malformed)
        #expect(error?.function == "C_GetAttributeValue")
    }

    @Test func `attributes that are all unavailable`() async throws {
        let error = try await sign(told: "C_GetAttributeValue length \(Self.negative)")
        #expect(error?.kind == .keyAbsent)
    }

    @Test(arguments: [
        "04410400", String(repeating: "ff", count: 67), "0441" + String(repeating: "04", count: 65),
        "04" + String(repeating: "11", count: 64), String(repeating: "04", count: 260),
    ])
    func `an invalid point`(_ point: String) async throws {
        let error = try await sign(told: "C_GetAttributeValue value 0x181 \(point)")
        #expect(error?.kind == .malformed)
        #expect(error?.function == "C_GetAttributeValue")
    }

    @Test func `the self-test detects another key's point`() async throws {
        let hostile = try HostileToken()
        let token = try await hostile.token()
        let (id, pin) = try await makeKey(token)
        // The generator of P-256 (SEC 2 section 2.4.2): on the curve, but not this key's point.
        try hostile.tell(
            "C_GetAttributeValue value 0x181 044104"
                + "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
                + "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5")
        let error = await cryptokiError { () throws(CryptokiError) in
            try await token.withSession { session throws(CryptokiError) in
                try session.login(.user, with: pin)
                try session.selfTest(try session.key(id: id))
            }
        }
        #expect(error?.kind == .unsound)
    }

    @Test(arguments: [
        "C_GetAttributeValue value 0x162 01",  // CKA_EXTRACTABLE
        "C_GetAttributeValue value 0x11 5ec2e7",  // CKA_VALUE
        "C_GetAttributeValue value 0x103 00",  // CKA_SENSITIVE
        "C_GetAttributeValue value 0x163 00",  // CKA_LOCAL
    ])
    func `a key that the token does not protect is destroyed at once`(_ lie: String) async throws {
        let hostile = try HostileToken()
        let token = try await hostile.token()
        let pin = try TokenBench.pin()
        let request = TokenBench.request()
        try hostile.tell(lie)
        let error = await cryptokiError { () throws(CryptokiError) in
            _ = try await token.withSession { session throws(CryptokiError) in
                try session.login(.user, with: pin)
                return try session.generateKeyPair(request)
            }
        }
        #expect(error?.kind == .unsound)
        #expect(try hostile.count(of: "C_DestroyObject") == 2)
        let isOccupied = try await token.withSession { session throws(CryptokiError) in
            try session.isOccupied(id: request.id)
        }
        #expect(!isOccupied)
    }

    @Test(arguments: ["1025", huge, negative])
    func `a module with too many slots`(_ count: String) async throws {
        let hostile = try HostileToken()
        try hostile.tell("C_GetSlotList length \(count)")
        let error = await cryptokiError { () throws(CryptokiError) in
            _ = try await Token.find(
                TokenURI("pkcs11:?module-path=\(hostile.modulePath)"), options: HostileToken.quick)
        }
        #expect(error?.kind == .malformed)
        #expect(error?.function == "C_GetSlotList")
    }

    @Test
    func
        `a refused template is tried again with fewer attributes, and a second refusal is an error`()
        async throws
    {
        let hostile = try HostileToken()
        let token = try await hostile.token()
        let pin = try TokenBench.pin()
        try hostile.tell("C_GenerateKeyPair return \(ReturnValue.attributeTypeInvalid.rawValue) 1")
        let key = try await token.withSession { session throws(CryptokiError) in
            try session.login(.user, with: pin)
            return try session.generateKeyPair(TokenBench.request())
        }
        // SoftHSM2 creates keys that are not extractable even without the attribute.
        #expect(key.attributes.isExtractable == false)
        try hostile.tell("C_GenerateKeyPair return \(ReturnValue.attributeTypeInvalid.rawValue)")
        let error = await cryptokiError { () throws(CryptokiError) in
            _ = try await token.withSession { session throws(CryptokiError) in
                try session.generateKeyPair(TokenBench.request())
            }
        }
        #expect(error?.returnValue == .attributeTypeInvalid)
        #expect(try hostile.count(of: "C_GenerateKeyPair") == 4)
    }

    @Test func `a signature needs two calls for any number of keys`() async throws {
        let hostile = try HostileToken()
        let token = try await hostile.token()
        let pin = try TokenBench.pin()
        let requests = (0..<5).map { _ in TokenBench.request() }
        try await token.withSession { session throws(CryptokiError) in
            try session.login(.user, with: pin)
            for request in requests { _ = try session.generateKeyPair(request) }
            _ = try session.key(id: requests[2].id)
        }
        let before = try hostile.calls().count
        _ = try await token.withSession { session throws(CryptokiError) in
            try session.sign(TokenBench.digest, with: try session.key(id: requests[2].id))
        }
        #expect(try hostile.calls().dropFirst(before) == ["C_SignInit", "C_Sign"])
    }
}
