import Latchkey
import LatchkeyLogin
import LatchkeyPKCS11
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting

/// A token that a person logs in with, its keystore, and the person.
struct LoginToken: Sendable {
    /// Makes keys, or adopts the one that its URI names.
    let keystore: any Keystore
    /// How the token demands its owner.
    let policy: AccessPolicy
    /// The owner, for so many proofs.
    let owner: @Sendable (_ proofs: Int) -> ScriptedPresence
    /// For example, another user.
    let stranger: @Sendable () -> ScriptedPresence
    /// How many proofs it takes to store the first session: two where nothing is sealed and opened
    /// without the owner.
    var proofsToAuthorize = 0
    /// How many proofs it takes to enable the login: a key is tested at its birth and then signs.
    var proofsToEnable = 1

    /// A token whose PIN is typed.
    init(keystore: PKCS11Keystore, pin: String) {
        self.keystore = keystore
        policy = .pin
        owner = { proofs in ScriptedPresence(Array(repeating: .pin(pin), count: proofs)) }
        stranger = { ScriptedPresence([.pin("999999")]) }
    }

    /// A token with a sensor.
    init(_ token: FingerprintToken) throws {
        keystore = try PKCS11Keystore(uri: token.uri)
        policy = .userPresence
        owner = { proofs in
            ScriptedPresence(Array(repeating: .pin("correct"), count: proofs)) { token.show($0) }
        }
        stranger = { ScriptedPresence([.pin("another")]) { token.show($0) } }
        // A finger can't be reused.
        proofsToEnable = 2
    }
}
