import Latchkey
import LatchkeyPKCS11
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// The contract over SoftHSM2 behind `p11-kit server`. The client runs in a separate process, which
/// has that test's server.
@Suite(
    .requires(program: "softhsm2-util"), .requires(program: "p11-kit"),
    .requires(program: "setpriv"),
    .timeLimit(.minutes(15)))
struct `A keystore on a token behind p11-kit server` {
    @Test(arguments: KeystoreContract.Requirement.allCases)
    func `keeps the contract`(_ requirement: KeystoreContract.Requirement) async throws {
        try await Self.withToken { token in
            try await KeystoreContract(
                device: SoftHSMContractTests.device,
                open: { try Self.keystore(on: token) },
                openOther: { body in
                    try await Self.withToken { try await body(Self.keystore(on: $0)) }
                }
            ).check(requirement)
        }
    }

    private static func withToken<R>(_ body: (ForwardedToken) async throws -> R) async throws -> R {
        let token = try await SoftwareToken(userPIN: "correct", placement: .ownDirectory)
        return try await ForwardedToken.withServer(for: token, body)
    }

    private static func keystore(on token: ForwardedToken) throws -> PKCS11Keystore {
        let options = TokenOptions(
            isolation: .always, environment: token.environment, deadlines: .hangLimit)
        return try PKCS11Keystore(uri: token.uri, options: PKCS11Options(token: options))
    }
}
