public import FoundationEssentials

/// The service that reads fingerprints: `latchkey-presenced`, if the machine has it.
///
/// A program returns it from ``PresenceAuthority/broker``. Keystore and service communicate through
/// it, and the hardware checks the result.
public struct PresenceBroker: Sendable {
    package let approvals: any ApprovalService

    package init(_ approvals: any ApprovalService) { self.approvals = approvals }

    /// Whether the calling user's fingerprint can be read now. Displays nothing.
    public func fingerState() async -> FingerState { await approvals.fingerState() }
}

/// Whether a user's fingerprint can be read.
public enum FingerState: Hashable, Sendable {
    /// A fingerprint can be read now.
    case ready
    /// There is no service, reader or TPM. The text says which.
    case notAvailable(String)
    /// The user has enrolled no fingerprint.
    case notEnrolled
    /// Too many fingerprints did not match. `until` is the time of the next attempt.
    case lockedOut(until: Date?)
}

/// The service that reads fingerprints, as a keystore uses it: it approves uses of keys, and states
/// the parameters to which new keys must be bound.
///
/// It only approves: it has no part of a key and sees no PIN, and its signature is valid for one
/// use of one key of the calling user. The hardware checks that signature.
package protocol ApprovalService: Sendable {
    /// Whether the calling user's fingerprint can be read now. Displays nothing.
    func fingerState() async -> FingerState

    /// Returns the parameters to which the calling user's keys must be bound under a policy.
    ///
    /// - Throws: ``KeystoreError``: `unavailable` without a service or reader, `notEnrolled` if the
    ///   policy includes a fingerprint and none is enrolled, `unsupported` if this machine cannot
    ///   enforce the policy, `transient` if the service did not answer.
    func terms(for policy: AccessPolicy) async throws(KeystoreError) -> PresenceTerms

    /// Prompts for a fingerprint, within the service's own deadline, and approves one use of one
    /// key.
    ///
    /// Answers ``ApprovalAnswer/declined(_:)`` if the task is cancelled.
    ///
    /// - Throws: ``KeystoreError``: `unavailable`, `notEnrolled`, `lockedOut` after too many
    ///   fingerprints that did not match.
    func approve(_ request: ApprovalRequest) async throws(KeystoreError) -> ApprovalAnswer

    /// Approves the deferred signature of an approved request, now that its digest is known. Once,
    /// within some seconds.
    ///
    /// - Parameter ticket: ``PresenceApproval/ticket``.
    /// - Throws: ``KeystoreError``: `refused` for an unknown or late ticket, or a use that is not a
    ///   signature.
    func complete(_ ticket: Data, _ use: ApprovalRequest.Use) async throws(KeystoreError)
        -> PresenceApproval

    /// Allocates a place in the hardware for the calling user's own PIN, which is not set yet.
    ///
    /// - Throws: ``KeystoreError``: `conflict` if the user has set a PIN, `unsupported` if the
    ///   hardware cannot store one.
    func makeUserPIN() async throws(KeystoreError) -> UnsetUserPIN

    /// Whether this machine is known to have no such service. False in every case of doubt: a new
    /// key gets a weaker protection only when this returns true, so a failed or refused query must
    /// not return true.
    func isAbsent() async -> Bool
}

extension ApprovalService {
    /// A service in this process is present.
    package func isAbsent() async -> Bool { false }

    /// A service that approves only single uses.
    package func complete(
        _ ticket: Data, _ use: ApprovalRequest.Use
    ) async throws(KeystoreError) -> PresenceApproval {
        throw .unsupported(
            "the presence broker approves only one use at a time",
            recovery: "Update latchkey-presenced.")
    }
}

/// A request to approve one use of one key after a fingerprint has matched.
package struct ApprovalRequest: Hashable, Sendable {
    /// The use of the key. The broker computes the bytes that it signs from it.
    package enum Use: Hashable, Sendable {
        /// Signing this digest.
        case sign(MessageDigest)
        /// Signing this digest with a key that permits several schemes (``KeyForm/webAuthn``): the
        /// command names ECDSA with SHA-256.
        case signNamingScheme(MessageDigest)
        /// Opening a sealed secret.
        case unseal
        /// Computing the HMAC of this message, 32 bytes.
        case mac(Data)
    }

    /// A further use, with the same prompt and the same policy.
    package struct Further: Hashable, Sendable {
        /// The use; nil for one signature whose digest is not known yet:
        /// ``ApprovalService/complete(_:_:)``.
        package var use: Use?
        /// The Name of the key, 34 bytes.
        package var keyName: Data
        /// The nonce of the TPM's session for this use, 32 bytes.
        package var nonceTPM: Data

        package init(use: Use?, keyName: Data, nonceTPM: Data) {
            self.use = use
            self.keyName = keyName
            self.nonceTPM = nonceTPM
        }
    }

    /// The maximum number of further uses.
    package static let maximumFurtherUses = 2

    /// The maximum length of a reason or a container name that the broker accepts, in bytes of
    /// UTF-8. It displays fewer.
    package static let maximumTextBytes = 4096

    /// The use of the key.
    package var use: Use
    /// The Name of the key (TPM 2.0 Part 1 section 16), 34 bytes.
    package var keyName: Data
    /// The nonce of the TPM's session, 32 bytes. The approval is valid in that session only.
    package var nonceTPM: Data
    /// The policy of the key.
    package var policy: AccessPolicy
    /// The text that the user sees.
    package var context: PromptContext
    /// The further uses that the same fingerprint approves. The approval of a deferred signature
    /// comes last.
    package var further: [Further] = []

    /// A request for one use of one key in one session.
    package init(
        use: Use, keyName: Data, nonceTPM: Data, policy: AccessPolicy, context: PromptContext
    ) {
        self.use = use
        self.keyName = keyName
        self.nonceTPM = nonceTPM
        self.policy = policy
        self.context = context
    }
}

/// The result of a request for a fingerprint. A fingerprint that does not match is a result, not an
/// error.
package enum ApprovalAnswer: Hashable, Sendable {
    /// The fingerprint matched. The hardware checks the approval.
    case approved(PresenceApproval)
    /// The fingerprint did not match.
    case notRecognised
    /// The user declined, or did not touch the reader in time. The text says which.
    case declined(String)
}

/// The broker's statement that the user was verified, for one use of one key in one session of the
/// TPM.
package struct PresenceApproval: Hashable, Sendable {
    /// The validity in seconds since the session's nonce was created; negative if the policy allows
    /// reuse of the proof for that time.
    package var expiration: Int32
    /// The signature over `aHash` (TPM 2.0 Part 3 section 23.3).
    package var signature: ECDSASignature
    /// The signatures for the further uses with a known command, in their order.
    package var further: [ECDSASignature] = []
    /// The secret with which the requester states the digest of the deferred signature, 32 bytes;
    /// nil without one.
    package var ticket: Data?

    package init(expiration: Int32, signature: ECDSASignature) {
        self.expiration = expiration
        self.signature = signature
    }
}

/// An attestation key, wrapped by the TPM. Only the same TPM can use it, without any authorization.
package struct WrappedAttestationKey: Hashable, Sendable {
    /// `TPMT_PUBLIC`.
    package let publicArea: Data
    /// The content of a `TPM2B_PRIVATE`.
    package let privatePart: Data

    package init(publicArea: Data, privatePart: Data) {
        (self.publicArea, self.privatePart) = (publicArea, privatePart)
    }
}

/// The TPM's statement that the presence broker's approval key is in it.
package struct CertifiedApprovalKey: Hashable, Sendable {
    /// The approval key, `TPMT_PUBLIC`.
    package let publicArea: Data
    /// `TPMS_ATTEST` of `TPM2_Certify`.
    package let statement: Data
    /// The attestation key's signature.
    package let signature: ECDSASignature

    package init(publicArea: Data, statement: Data, signature: ECDSASignature) {
        (self.publicArea, self.statement, self.signature) = (publicArea, statement, signature)
    }
}
