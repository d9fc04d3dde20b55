import Latchkey
import LatchkeyPKCS11
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@Suite(.softwareToken)
struct SoftHSMContractTests {
    /// SoftHSM2's tokens have one PIN of 4 to 255 bytes, and do not count wrong ones.
    static let device = KeystoreContract.Device(
        pin: .ofDevice("correct"), guessing: .unlimited, pinBytes: 4...255)

    @Test(arguments: KeystoreContract.Requirement.allCases)
    func `A keystore on SoftHSM2`(_ requirement: KeystoreContract.Requirement) async throws {
        let token = try SoftwareToken.current
        let contract = KeystoreContract(
            device: Self.device,
            open: { try PKCS11Keystore(uri: token.uri) },
            openOther: { body in
                let other = try await SoftwareToken(label: token.label, userPIN: token.userPIN)
                try await body(PKCS11Keystore(uri: other.uri))
            })
        try await contract.check(requirement)
    }
}
