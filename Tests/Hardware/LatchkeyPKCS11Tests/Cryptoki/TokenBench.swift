import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import Testing

@testable import LatchkeyPKCS11

/// Helpers for tests of the Cryptoki layer.
enum TokenBench {
    static func token(_ options: TokenOptions = TokenOptions()) async throws -> Token {
        try await Token.find(TokenURI(SoftwareToken.current.uri), options: options)
    }

    static func pin() throws -> LoginProof { .pin(try PIN(SoftwareToken.current.userPIN)) }

    static func request(
        _ use: KeyPairRequest.Use = .sign, isPrivate: Bool = true, alwaysAuthenticates: Bool = false
    ) -> KeyPairRequest {
        KeyPairRequest(
            id: Data((0..<16).map { _ in UInt8.random(in: .min ... .max) }), label: "latchkey test",
            use: use,
            isPrivate: isPrivate, alwaysAuthenticates: alwaysAuthenticates)
    }

    static let digest = MessageDigest(sha256: "message".utf8)
}

/// The error that `work` throws; nil if it throws none. Any other error is an issue.
func cryptokiError(_ work: () async throws -> Void) async -> CryptokiError? {
    do {
        try await work()
    } catch let error as CryptokiError {
        return error
    } catch {
        Issue.record(error)
    }
    return nil
}
