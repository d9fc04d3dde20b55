package import FoundationEssentials

/// A request to approve one use of one key, once the person has shown a finger.
package struct ApprovalRequest: Hashable, Sendable {
    /// What the key will be used for. The broker computes from it what it signs.
    package enum Use: Hashable, Sendable {
        /// To sign this digest.
        case sign(MessageDigest)
        /// To open a sealed secret.
        case unseal
    }

    /// The most bytes of UTF-8 that the broker accepts in a reason or a container. It shows fewer.
    package static let maximumTextBytes = 4096

    /// What the key will be used for.
    package var use: Use
    /// The Name of the key (TPM 2.0 Part 1 section 16), 34 bytes.
    package var keyName: Data
    /// The nonce of the TPM's session, 32 bytes: the approval serves that session only.
    package var nonceTPM: Data
    /// The policy with which the key was made.
    package var policy: AccessPolicy
    /// What the person is told.
    package var context: PromptContext

    /// A request for one use of one key in one session.
    package init(use: Use, keyName: Data, nonceTPM: Data, policy: AccessPolicy, context: PromptContext) {
        self.use = use
        self.keyName = keyName
        self.nonceTPM = nonceTPM
        self.policy = policy
        self.context = context
    }
}
