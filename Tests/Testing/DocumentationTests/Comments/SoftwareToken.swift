import LatchkeyPKCS11
import LatchkeySimulators

private func tokenKeystore() async throws -> (SoftwareToken, PKCS11Keystore) {
    let token = try await SoftwareToken(label: "work")
    let keystore = try PKCS11Keystore(uri: token.uri)
    return (token, keystore)
}
