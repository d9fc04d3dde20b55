internal import Latchkey
package import LatchkeyPKCS11

/// The token to use instead of the TPM.
package struct TokenSettings: Sendable {
    /// nil for the TPM.
    package let uri: TokenURI?
    package let options: PKCS11Options

    package init(_ values: SettingsReader) throws {
        options = PKCS11Options(
            token: TokenOptions(isolation: try Self.isolation(values)),
            protectedPath: try Self.protectedPath(values))
        do {
            uri = try values.value("token").map(TokenURI.init)
        } catch let error as CryptokiError {
            throw values.invalid("token", error.reason)
        }
    }

    /// The TPM.
    package init() {
        uri = nil
        options = PKCS11Options()
    }

    /// Where the user enters the PIN. Some tokens do not report their fingerprint sensor.
    private static func protectedPath(_ values: SettingsReader) throws(KeystoreError)
        -> PKCS11Options.ProtectedPath
    {
        switch try values.value("token-login") {
        case nil, "auto"?: return .asTokenSays
        case "pin"?: return .never
        case "reader"?: return .always
        case let text?: throw values.invalid("token-login", "‘\(text)’ is not auto, pin or reader")
        }
    }

    private static func isolation(_ values: SettingsReader) throws(KeystoreError)
        -> TokenOptions.Isolation
    {
        switch try values.value("token-isolation") {
        case nil, "auto"?: return .automatic
        case "always"?: return .always
        case "never"?: return .never
        case let text?:
            throw values.invalid("token-isolation", "‘\(text)’ is not auto, always or never")
        }
    }
}
