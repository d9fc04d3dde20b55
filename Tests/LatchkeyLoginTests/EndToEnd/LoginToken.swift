import Latchkey
import LatchkeyPKCS11
import LatchkeySimulators
import LatchkeyTesting

/// A kind of token that a person may log in with.
enum LoginToken: String, CaseIterable, Sendable {
    case softHSM, fingerprint, tpm

    /// A token, its keystore, and the person who uses it.
    struct Machine: Sendable {
        let keystore: any Keystore
        /// How the token demands its owner.
        let policy: AccessPolicy
        /// The owner, for so many proofs.
        let owner: @Sendable (_ proofs: Int) -> ScriptedPresence
        /// Somebody else, for one.
        let stranger: @Sendable () -> ScriptedPresence
    }

    /// Lends a new token to `body`.
    func withMachine(_ body: @Sendable (Machine) async throws -> Void) async throws {
        switch self {
        case .softHSM:
            let token = try await SoftwareToken(label: "Login")
            try await body(Self.machine(PKCS11Keystore(uri: token.uri), pin: token.userPIN))
        case .fingerprint:
            let token = try await FingerprintToken()
            try await body(
                Machine(
                    keystore: PKCS11Keystore(uri: token.uri), policy: .userPresence,
                    owner: { proofs in
                        ScriptedPresence(Array(repeating: .pin("correct"), count: proofs)) { token.show($0) }
                    },
                    stranger: { ScriptedPresence([.pin("another")]) { token.show($0) } }))
        case .tpm:
            try await SoftwareTPMToken.withToken { token in
                let options = TokenOptions(isolation: .always, environment: token.environment)
                let keystore = try PKCS11Keystore(uri: token.uri, options: PKCS11Options(token: options))
                try await body(Self.machine(keystore, pin: token.userPIN))
            }
        }
    }

    private static func machine(_ keystore: PKCS11Keystore, pin: String) -> Machine {
        Machine(
            keystore: keystore, policy: .pin,
            owner: { proofs in ScriptedPresence(Array(repeating: .pin(pin), count: proofs)) },
            stranger: { ScriptedPresence([.pin("999999")]) })
    }
}
