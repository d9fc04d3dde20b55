import Latchkey
import LatchkeyPKCS11

/// Which token is used instead of the TPM, and how.
struct TokenSettings: Sendable {
    /// Where the person proves themself.
    enum Login: String, CaseIterable {
        /// At the reader where the token says that it has a pad or sensor, else here.
        case auto
        /// Here, whatever the token says.
        case pin
        /// At the reader, whatever the token says: some with a finger sensor don't say so.
        case reader
    }

    /// nil for the TPM.
    let uri: TokenURI?
    let options: PKCS11Options

    init(_ values: SettingsReader) async throws {
        options = PKCS11Options(
            token: TokenOptions(isolation: try await Self.isolation(values)),
            protectedPath: try await Self.login(values).protectedPath)
        guard let text = try await values["token"] else {
            uri = nil
            return
        }
        do throws(CryptokiError) {
            uri = try TokenURI(text)
        } catch {
            throw KeystoreError.invalidInput("read the token's URI", error.reason)
        }
    }

    /// The TPM.
    init() {
        uri = nil
        options = PKCS11Options()
    }

    private static func login(_ values: SettingsReader) async throws -> Login {
        guard let text = try await values["token-login"] else { return .auto }
        guard let login = Login(rawValue: text) else {
            throw KeystoreError.invalidInput("read token-login", "‘\(text)’ is none of auto, pin and reader")
        }
        return login
    }

    private static func isolation(_ values: SettingsReader) async throws -> TokenOptions.Isolation {
        switch try await values["token-isolation"] {
        case nil, "auto"?: return .automatic
        case "always"?: return .always
        case "never"?: return .never
        case let text?:
            throw KeystoreError.invalidInput("read token-isolation", "‘\(text)’ is none of auto, always and never")
        }
    }
}

extension TokenSettings.Login {
    fileprivate var protectedPath: PKCS11Options.ProtectedPath {
        switch self {
        case .auto: .asTokenSays
        case .pin: .never
        case .reader: .always
        }
    }
}
