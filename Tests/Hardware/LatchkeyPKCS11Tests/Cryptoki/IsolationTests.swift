import Crypto
import FoundationEssentials
import Glibc
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import Testing

@testable import LatchkeyPKCS11

/// Modules in separate processes.
@Suite(
    .requires(program: "softhsm2-util"), .requires(program: "p11-kit"),
    .requires(program: "setpriv"))
struct IsolationTests {
    private func find(_ token: SoftwareToken) async throws -> Token {
        try await Token.find(
            TokenURI(token.uri),
            options: TokenOptions(
                isolation: .always, environment: token.environment, deadlines: .hangLimit))
    }

    @Test func `modules with different environments run at the same time, each with its tokens`()
        async throws
    {
        let tokens = [
            try await SoftwareToken(label: "one", placement: .ownDirectory),
            try await SoftwareToken(label: "two", placement: .ownDirectory),
        ]
        let pin = LoginProof.pin(try PIN(tokens[0].userPIN))
        try await withThrowingTaskGroup { group in
            for token in tokens {
                group.addTask {
                    let found = try await find(token)
                    #expect(found.module.isIsolated)
                    #expect(found.information.label == token.label)
                    #expect(found.module.profile == .softhsm)
                    let request = TokenBench.request()
                    let (key, signature) = try await found.withSession {
                        session throws(CryptokiError) in
                        try session.login(.user, with: pin)
                        let key = try session.generateKeyPair(request)
                        return (key, try session.sign(TokenBench.digest, with: key))
                    }
                    #expect(key.publicKey.isValid(signature, for: TokenBench.digest))
                }
            }
            try await group.waitForAll()
        }
    }

    @Test(.softwareToken) func `a module whose C_Initialize hung is loaded once more`() async throws
    {
        let hostile = try HostileToken()
        try hostile.tell("C_Initialize hang")
        let options = {
            var options = HostileToken.isolated
            options.deadlines.load = .seconds(5)
            return options
        }()
        async let found = hostile.token(options)
        #expect(await poll { (try? hostile.count(of: "C_Initialize")) ?? 0 > 0 })
        try hostile.tell()
        #expect(try await found.module.isIsolated)
        #expect(try hostile.count(of: "C_Initialize") == 2)
    }

    @Test(.softwareToken) func `what a module prints is not part of its answers`() async throws {
        let hostile = try HostileToken()
        try hostile.tell(
            "C_GetFunctionList print", "C_Initialize print", "C_GetTokenInfo print",
            "C_SignInit print", "C_Sign print")
        let found = try await hostile.token(HostileToken.isolated)
        let pin = try TokenBench.pin()
        let (key, signature) = try await found.withSession { session throws(CryptokiError) in
            try session.login(.user, with: pin)
            let key = try session.generateKeyPair(TokenBench.request())
            return (key, try session.sign(TokenBench.digest, with: key))
        }
        #expect(found.module.isIsolated)
        #expect(key.publicKey.isValid(signature, for: TokenBench.digest))
    }

    @Test func `the messages of the protocol are told from other writes`() {
        var messages = RemoteMessages()
        func expect(
            _ packet: some Sequence<UInt8>, _ isMessage: Bool,
            sourceLocation: SourceLocation = #_sourceLocation
        ) {
            let found = messages.contains(Array(packet)[...])
            #expect(found == isMessage, sourceLocation: sourceLocation)
        }
        let header: [UInt8] = [0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0x20, 3]
        expect("SDK version 2.03\n".utf8, false)
        expect("\n".utf8, false)
        expect(header, false)
        expect([0], true)
        expect([0], false)
        expect("twelve bytes".utf8, false)
        expect(header, true)
        // A body of 8195 bytes, with what another thread of the module prints.
        expect(repeatElement(0, count: 4096), true)
        expect("a log\n".utf8, false)
        expect(repeatElement(0, count: 4096), true)
        expect(repeatElement(0, count: 4), false)
        expect(repeatElement(0, count: 3), true)
        // Options of 2 bytes, and no body.
        expect([0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0], true)
        expect([0, 0], true)
        // Neither.
        expect(repeatElement(0, count: 12), true)
        expect(header, true)
    }

    @Test func `a killed process is restarted, and leaves no file and no zombie`() async throws {
        let token = try await SoftwareToken(placement: .ownDirectory)
        let found = try await find(token)
        let process = try #require(found.module.process)
        #expect(!FileManager.default.fileExists(atPath: process.directory))
        let first = try #require(process.processIdentifier)
        #expect(kill(first, SIGKILL) == 0)
        let label = try await found.withSession { session throws(CryptokiError) in
            try session.tokenInformation().label
        }
        #expect(label == token.label)
        let second = try #require(process.processIdentifier)
        #expect(second != first)
        #expect(found.module.epoch == 2)
        #expect(!FileManager.default.fileExists(atPath: process.directory))
        // The next call replaces this process, possibly before it is reaped.
        process.kill()
        _ = try await found.withSession { session throws(CryptokiError) in
            try session.tokenInformation().label
        }
        #expect(try #require(process.processIdentifier) != second)
        let deadline = ContinuousClock.now + hangLimit
        for ended in [first, second] {
            // Signal 0 reaches a zombie.
            while kill(ended, 0) == 0 {
                try #require(ContinuousClock.now < deadline, "process \(ended) still exists")
                try await Task.sleep(for: .milliseconds(5))
            }
        }
    }

    @Test func `the environment of this process does not change`() async throws {
        let token = try await SoftwareToken(placement: .ownDirectory)
        _ = try await find(token)
        // Other tests load isolated modules at the same time.
        #expect(await poll { getenv("P11_KIT_SERVER_ADDRESS") == nil })
        #expect(getenv("PATH") != nil)
    }

    @Test func `key agreement, which p11-kit's protocol lacks, is unsupported`() async throws {
        let token = try await SoftwareToken(placement: .ownDirectory)
        let found = try await find(token)
        let pin = LoginProof.pin(try PIN(token.userPIN))
        let peer = try PublicKey(
            x963Representation: P256.KeyAgreement.PrivateKey().publicKey.x963Representation)
        let error = await cryptokiError { () throws(CryptokiError) in
            _ = try await found.withSession { session throws(CryptokiError) in
                try session.login(.user, with: pin)
                let key = try session.generateKeyPair(TokenBench.request(.derive))
                return try session.sharedSecret(of: key, with: peer)
            }
        }
        #expect(error?.kind == .unsupported)
        #expect(error?.function == "C_DeriveKey")
    }

    @Test(.softwareToken) func `a module that its process can't load is reported`() async throws {
        let hostile = try HostileToken()
        try hostile.tell("C_GetFunctionList return \(ReturnValue.generalError.rawValue)")
        let error = await cryptokiError { _ = try await hostile.token(HostileToken.isolated) }
        #expect(error?.kind == .module(.notIsolated))
    }
}
