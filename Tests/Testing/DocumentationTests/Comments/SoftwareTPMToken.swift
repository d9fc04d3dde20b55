import LatchkeyPKCS11
import LatchkeySimulators

private func useTPMToken(_ body: (PKCS11Keystore) async throws -> Void) async throws {
    try await SoftwareTPMToken.withToken { token in
        let options = TokenOptions(isolation: .always, environment: token.environment)
        let keystore = try PKCS11Keystore(uri: token.uri, options: PKCS11Options(token: options))
        try await body(keystore)
    }
}
