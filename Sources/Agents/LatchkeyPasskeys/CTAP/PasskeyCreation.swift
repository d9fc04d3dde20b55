package import FoundationEssentials
package import Latchkey

/// The keys of a new passkey.
package struct PasskeyCreation: Sendable {
    /// Whether to create a key for PRF too.
    package let wantsMACKey: Bool
    /// The prompt for a new PIN, if the policy needs one.
    package let question: PasskeyQuestion
}

/// A use of a passkey with one prompt.
package struct PasskeyUse: Sendable {
    package let passkey: Passkey
    /// The PRF's inputs, 32 bytes each: none, one or two.
    package let salts: [Data]
    /// Computes the digest to sign from the PRF's outputs: the signed data contains them, encrypted
    /// for the client.
    package let digest: @Sendable ([SecretBytes]) throws(KeystoreError) -> MessageDigest
    package let question: PasskeyQuestion
    /// The index of the passkey's account in ``PasskeyQuestion/accounts``.
    package let account: Int
}

/// The state of the hardware and the store.
package struct PasskeyState: Hashable, Sendable {
    /// Whether the user can be verified now.
    package var canVerify: Bool
    /// The number of wrong proofs before the lockout; nil if unknown.
    package var attemptsLeft: Int?
    /// The number of stored passkeys.
    package var count: Int

    package init(canVerify: Bool, attemptsLeft: Int?, count: Int) {
        self.canVerify = canVerify
        self.attemptsLeft = attemptsLeft
        self.count = count
    }
}

/// A request that reads the authenticator's state.
enum PasskeyInspection: Sendable {
    case info, retries
}
