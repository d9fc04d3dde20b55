import FoundationEssentials
import Latchkey
import LatchkeyTesting
import Testing

@testable import LatchkeyPKCS11

/// Each step of the recovery policy, with a module that loses sessions and tokens on request.
@Suite(.requires(program: "softhsm2-util"), .softwareToken)
struct RecoveryTests {
    /// A token with a key that signs after a login, and a closure that signs with it.
    private func prepared(
        _ hostile: HostileToken, _ options: TokenOptions = HostileToken.quick
    ) async throws -> (
        token: Token, sign: @Sendable (Session) throws(CryptokiError) -> ECDSASignature
    ) {
        let token = try await hostile.token(options)
        let pin = try TokenBench.pin()
        let request = TokenBench.request()
        try await token.withSession { session throws(CryptokiError) in
            try session.login(.user, with: pin)
            _ = try session.generateKeyPair(request)
        }
        return (
            token,
            { session throws(CryptokiError) in
                try session.login(.user, with: pin)
                return try session.sign(TokenBench.digest, with: try session.key(id: request.id))
            }
        )
    }

    @Test func `sessions that other code closed are opened again`() async throws {
        let hostile = try HostileToken()
        let (token, sign) = try await prepared(hostile)
        try hostile.tell("C_SignInit closesessions 1")
        let signature = try await token.withSession(sign)
        #expect(signature.rawRepresentation.count == 64)
        #expect(try hostile.count(of: "C_OpenSession") == 2)
        #expect(try hostile.count(of: "C_Finalize") == 0)
    }

    @Test(arguments: [ReturnValue.sessionHandleInvalid, .objectHandleInvalid, .keyHandleInvalid])
    func `an error that requires a new session is tried again once`(_ value: ReturnValue)
        async throws
    {
        let hostile = try HostileToken()
        let (token, sign) = try await prepared(hostile)
        try hostile.tell("C_Sign return \(value.rawValue) 1")
        #expect(try await token.withSession(sign).rawRepresentation.count == 64)
        let before = try hostile.count(of: "C_Sign")
        try hostile.tell("C_Sign return \(value.rawValue)")
        let error = await cryptokiError { () throws(CryptokiError) in
            _ = try await token.withSession(sign)
        }
        #expect(error?.returnValue == value)
        #expect(try hostile.count(of: "C_Sign") == before + 2)
        try hostile.tell()
        #expect(try await token.withSession(sign).rawRepresentation.count == 64)
    }

    @Test func `a token that is inserted again is found again`() async throws {
        let hostile = try HostileToken()
        let (token, sign) = try await prepared(hostile)
        try hostile.tell("C_Sign return \(ReturnValue.deviceRemoved.rawValue) 1")
        #expect(try await token.withSession(sign).rawRepresentation.count == 64)
        #expect(try hostile.count(of: "C_Finalize") == 0)
    }

    @Test func `a removed token is absent, and works after it is inserted again`() async throws {
        let hostile = try HostileToken()
        let (token, sign) = try await prepared(hostile)
        try hostile.tell(
            "C_Sign return \(ReturnValue.deviceRemoved.rawValue) 1", "C_GetSlotList absent")
        let error = await cryptokiError { () throws(CryptokiError) in
            _ = try await token.withSession(sign)
        }
        #expect(error?.kind == .tokenAbsent)
        try hostile.tell()
        #expect(try await token.withSession(sign).rawRepresentation.count == 64)
    }

    @Test func `a restart of the module recovers from a persistent device error`() async throws {
        let hostile = try HostileToken()
        let (token, sign) = try await prepared(hostile)
        let epoch = token.module.epoch
        try hostile.tell("C_Sign return \(ReturnValue.deviceError.rawValue) 2")
        #expect(try await token.withSession(sign).rawRepresentation.count == 64)
        #expect(token.module.epoch == epoch + 1)
        #expect(try hostile.count(of: "C_Finalize") == 1)
        #expect(try hostile.count(of: "C_Initialize") == 2)
    }

    @Test func `a permanent device error is reported after each step was tried once`() async throws
    {
        let hostile = try HostileToken()
        let (token, sign) = try await prepared(hostile)
        let before = try hostile.count(of: "C_Sign")
        try hostile.tell("C_Sign return \(ReturnValue.deviceError.rawValue)")
        let error = await cryptokiError { () throws(CryptokiError) in
            _ = try await token.withSession(sign)
        }
        #expect(error?.returnValue == .deviceError)
        #expect(error?.function == "C_Sign")
        #expect(try hostile.count(of: "C_Sign") == before + 3)
        try hostile.tell()
        #expect(try await token.withSession(sign).rawRepresentation.count == 64)
    }

    @Test func `a module that other code finalized is initialized again`() async throws {
        let hostile = try HostileToken()
        let (token, sign) = try await prepared(hostile)
        try hostile.tell("C_SignInit finalize 1")
        #expect(try await token.withSession(sign).rawRepresentation.count == 64)
        #expect(token.module.epoch == 2)
    }

    @Test func `a wrong PIN is sent to the token once, even with other errors`() async throws {
        let hostile = try HostileToken()
        let (token, _) = try await prepared(hostile)
        let before = try hostile.count(of: "C_Login")
        let wrong = LoginProof.pin(try PIN("wrong"))
        let error = await cryptokiError { () throws(CryptokiError) in
            try await token.withSession { session throws(CryptokiError) in
                try session.login(.user, with: wrong)
            }
        }
        #expect(error?.returnValue == .pinIncorrect)
        #expect(try hostile.count(of: "C_Login") == before + 1)
    }

    // SoftHSM2, which counts no PINs, gets one again after CKR_GENERAL_ERROR: OddTokenTests.
    @Test(arguments: [ReturnValue.deviceError, .deviceRemoved, .functionFailed])
    func `a PIN with an unclear result is not sent again`(_ value: ReturnValue) async throws {
        let hostile = try HostileToken()
        let (token, sign) = try await prepared(hostile)
        let before = try hostile.count(of: "C_Login")
        try hostile.tell("C_Login return \(value.rawValue) 1")
        let error = await cryptokiError { () throws(CryptokiError) in
            _ = try await token.withSession(sign)
        }
        #expect(error?.function == "C_Login")
        #expect(try hostile.count(of: "C_Login") == before + 1)
        #expect(try await token.withSession(sign).rawRepresentation.count == 64)
    }

    @Test(arguments: ["C_SignInit", "C_Sign", "C_FindObjectsInit"])
    func `a login that another program ended is repeated once`(_ function: String) async throws {
        let hostile = try HostileToken()
        let (token, sign) = try await prepared(hostile)
        let before = try hostile.count(of: "C_Login")
        try hostile.tell("\(function) return \(ReturnValue.userNotLoggedIn.rawValue) 1")
        #expect(try await token.withSession(sign).rawRepresentation.count == 64)
        #expect(try hostile.count(of: "C_Login") == before + 2)
    }

    @Test func `an error of another slot does not stop the token`() async throws {
        for value in [ReturnValue.deviceError, .cryptokiNotInitialized, .generalError] {
            let hostile = try HostileToken()
            let (token, sign) = try await prepared(hostile)
            try hostile.tell(
                "C_GetTokenInfo blank \(value.rawValue)",
                "C_Sign return \(ReturnValue.deviceRemoved.rawValue) 1")
            #expect(try await token.withSession(sign).rawRepresentation.count == 64)
            #expect(try hostile.count(of: "C_Finalize") == 0)
        }
    }

    @Test func `a PIN that was lost with the session is sent again`() async throws {
        let hostile = try HostileToken()
        let (token, sign) = try await prepared(hostile)
        let before = try hostile.count(of: "C_Login")
        try hostile.tell("C_Login return \(ReturnValue.sessionHandleInvalid.rawValue) 1")
        #expect(try await token.withSession(sign).rawRepresentation.count == 64)
        #expect(try hostile.count(of: "C_Login") == before + 2)
    }

    @Test
    func
        `a signature that is refused after each login is unsupported, and one refused late needs a touch`()
        async throws
    {
        let hostile = try HostileToken()
        let (token, sign) = try await prepared(hostile)
        try hostile.tell("C_Sign return \(ReturnValue.userNotLoggedIn.rawValue)")
        let login = await cryptokiError { () throws(CryptokiError) in
            _ = try await token.withSession(sign)
        }
        #expect(login?.kind == .unsupported)
        try hostile.tell()
        #expect(try await token.withSession(sign).rawRepresentation.count == 64)

        // Another copy of the module, because a module keeps its deadlines.
        let late = try HostileToken()
        var options = HostileToken.patient
        options.deadlines.touch = .milliseconds(200)
        let (lateToken, lateSign) = try await prepared(late, options)
        try late.tell("C_Sign sleep 400", "C_Sign return \(ReturnValue.userNotLoggedIn.rawValue)")
        let touch = await cryptokiError { () throws(CryptokiError) in
            _ = try await lateToken.withSession(lateSign)
        }
        #expect(touch?.kind == .touchTimedOut)
        try late.tell()
        #expect(try await lateToken.withSession(lateSign).rawRepresentation.count == 64)
    }
}
