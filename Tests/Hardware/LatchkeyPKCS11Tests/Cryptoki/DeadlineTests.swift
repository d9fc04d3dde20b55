import FoundationEssentials
import Latchkey
import LatchkeyTesting
import Testing

@testable import LatchkeyPKCS11

/// Modules that never return, in this process and in a separate one.
@Suite(.requires(program: "softhsm2-util"), .softwareToken)
struct DeadlineTests {
    private func sign(_ id: Data, _ pin: LoginProof)
        -> @Sendable (Session) throws(CryptokiError) -> ECDSASignature
    {
        { session throws(CryptokiError) in
            try session.login(.user, with: pin)
            return try session.sign(TokenBench.digest, with: try session.key(id: id))
        }
    }

    private func makeKey(_ token: Token) async throws -> Data {
        let pin = try TokenBench.pin()
        let request = TokenBench.request()
        try await token.withSession { session throws(CryptokiError) in
            try session.login(.user, with: pin)
            _ = try session.generateKeyPair(request)
        }
        return request.id
    }

    @Test(arguments: ["C_Sign", "C_SignInit", "C_Login", "C_GetSessionInfo"])
    func `a hanging call ends within its deadline, and the module is not called again`(
        _ function: String
    )
        async throws
    {
        let hostile = try HostileToken()
        let token = try await hostile.token()
        let sign = sign(try await makeKey(token), try TokenBench.pin())
        try hostile.tell("\(function) hang")
        let error = await cryptokiError { () throws(CryptokiError) in
            _ = try await token.withSession(sign)
        }
        #expect(error?.kind == .timedOut)
        #expect(error?.function == function)
        try hostile.tell()
        let calls = try hostile.calls()
        let later = await cryptokiError { () throws(CryptokiError) in
            _ = try await token.withSession(sign)
        }
        #expect(later?.kind == .unresponsive)
        #expect(later?.function == function)
        let found = await cryptokiError { () throws(CryptokiError) in
            _ = try await Token.find(token.uri, options: HostileToken.quick)
        }
        #expect(found?.kind == .unresponsive)
        #expect(try hostile.calls() == calls)
    }

    @Test func `work that waits for a hanging call fails too`() async throws {
        let hostile = try HostileToken()
        let token = try await hostile.token()
        let sign = sign(try await makeKey(token), try TokenBench.pin())
        try hostile.tell("C_Sign hang")
        let kinds = await withTaskGroup { group in
            for _ in 0..<4 {
                group.addTask {
                    await cryptokiError { () throws(CryptokiError) in
                        _ = try await token.withSession(sign)
                    }?.kind
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(kinds.count { $0 == .timedOut } == 1)
        #expect(kinds.count { $0 == .unresponsive } == 3)
    }

    @Test(arguments: ["C_Initialize", "C_GetFunctionList"])
    func `a module that hangs while it is loaded is reported`(_ function: String) async throws {
        let hostile = try HostileToken()
        try hostile.tell("\(function) hang")
        let error = await cryptokiError { () throws(CryptokiError) in
            _ = try await Module.load(hostile.modulePath, options: HostileToken.isolated)
        }
        #expect(error?.kind == .module(.hanging))
        try hostile.tell()
        let module = try await Module.load(hostile.modulePath, options: HostileToken.isolated)
        #expect(module.isIsolated)
    }

    @Test func `a module that hangs in C_Initialize in this process is not loaded again`()
        async throws
    {
        let hostile = try HostileToken()
        try hostile.tell("C_Initialize hang")
        let error = await cryptokiError { () throws(CryptokiError) in
            _ = try await Module.load(hostile.modulePath, options: HostileToken.quick)
        }
        #expect(error?.kind == .module(.hanging))
        try hostile.tell()
        let later = await cryptokiError { () throws(CryptokiError) in
            _ = try await Module.load(hostile.modulePath, options: HostileToken.quick)
        }
        #expect(later?.kind == .unresponsive)
    }

    @Test(arguments: ["C_Sign", "C_Login", "C_FindObjects"])
    func `an isolated module that hangs is killed, and the next operation works`(_ function: String)
        async throws
    {
        let hostile = try HostileToken()
        let token = try await hostile.token(HostileToken.isolated)
        let sign = sign(try await makeKey(token), try TokenBench.pin())
        try hostile.tell("\(function) hang")
        let error = await cryptokiError { () throws(CryptokiError) in
            _ = try await token.withSession(sign)
        }
        #expect(error?.kind == .timedOut)
        #expect(error?.function == function)
        try hostile.tell()
        #expect(try await token.withSession(sign).rawRepresentation.count == 64)
    }

    @Test func `a cancelled task returns immediately, and the token works afterwards`() async throws
    {
        let hostile = try HostileToken()
        let token = try await hostile.token(HostileToken.patient)
        let sign = sign(try await makeKey(token), try TokenBench.pin())
        try hostile.tell("C_Sign hold")
        let before = try hostile.count(of: "C_Sign")
        let waiting = Task {
            await cryptokiError { () throws(CryptokiError) in _ = try await token.withSession(sign)
            }
        }
        while try hostile.count(of: "C_Sign") == before {
            try await Task.sleep(for: .milliseconds(2))
        }
        waiting.cancel()
        #expect(await waiting.value?.kind == .cancelled)
        try hostile.tell()
        #expect(try await token.withSession(sign).rawRepresentation.count == 64)
    }

    @Test func `work that was cancelled while it was queued never starts`() async throws {
        let hostile = try HostileToken()
        let token = try await hostile.token(HostileToken.patient)
        let id = try await makeKey(token)
        let sign = sign(id, try TokenBench.pin())
        try hostile.tell("C_Sign hold")
        let before = try hostile.count(of: "C_Sign")
        let first = Task { try await token.withSession(sign) }
        while try hostile.count(of: "C_Sign") == before {
            try await Task.sleep(for: .milliseconds(2))
        }
        let second = Task {
            await cryptokiError { () throws(CryptokiError) in _ = try await token.withSession(sign)
            }
        }
        second.cancel()
        #expect(await second.value?.kind == .cancelled)
        try hostile.tell()
        _ = try await first.value
        #expect(try hostile.count(of: "C_Sign") == before + 1)
    }
}
