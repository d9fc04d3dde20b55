import Latchkey
import LatchkeyPKCS11
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// The contract over a token without a PIN: each login is one fingerprint on its sensor.
@Suite(.requires(program: "softhsm2-util"), .timeLimit(.minutes(15)))
struct `A keystore on a fingerprint token` {
    @Test(arguments: KeystoreContract.Requirement.allCases)
    func `keeps the contract`(_ requirement: KeystoreContract.Requirement) async throws {
        let token = try await FingerprintToken()
        try await KeystoreContract(
            device: KeystoreContract.Device(
                pin: .atReader { token.show($0) }, guessing: .unlimited,
                guardedPolicy: .userPresence),
            open: { try PKCS11Keystore(uri: token.uri) },
            openOther: { body in
                let other = try await FingerprintToken()
                try await body(PKCS11Keystore(uri: other.uri))
            }
        ).check(requirement)
    }
}
