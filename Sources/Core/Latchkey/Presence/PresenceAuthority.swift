public import FoundationEssentials

/// Obtains user verification. The caller of a ``Keystore`` passes it in.
public protocol PresenceAuthority: Sendable {
    /// Prompts for a PIN and waits for the answer, within the authority's own deadline.
    ///
    /// Answers ``PINAnswer/declined(_:)`` if the task is cancelled.
    ///
    /// - Throws: ``KeystoreError`` if a prompt is not possible: `unavailable` without a terminal or
    ///   pinentry, `invalidInput` if the typed text cannot be a PIN.
    func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer

    /// Tells the user which action the waiting hardware needs, or that the hardware is locked out.
    /// Returns soon.
    ///
    /// An authority that cannot display messages does not implement this method.
    func notice(_ notice: PresenceNotice) async

    /// The hardware has accepted the last PIN: it was right, or was set. A keystore calls this. An
    /// authority that forwards requests to another one forwards this call too; others ignore it.
    func accepted()

    /// The hardware has rejected the last PIN. See ``accepted()``.
    func rejected()

    /// The service that reads fingerprints, or nil if the program uses none. nil by default.
    var broker: PresenceBroker? { get }

    /// The kind of proof that the user prefers. `any` by default.
    var preference: PresencePreference { get }

    /// Whether an earlier proof can be used within the key's reuse time
    /// (``AccessPolicy/reuseSeconds``), without a prompt, and whether a proof of this authority can
    /// be used later. `true` by default.
    var acceptsEarlierProof: Bool { get }

    /// Whether a person reads each request. If not, only requests that a script can foresee are
    /// made: no lockout password and no PUK instead of a PIN that is locked out. `true` by default.
    var isInteractive: Bool { get }
}

extension PresenceAuthority {
    public func notice(_ notice: PresenceNotice) async {}
    public func accepted() {}
    public func rejected() {}
    public var broker: PresenceBroker? { nil }
    public var preference: PresencePreference { .any }
    public var acceptsEarlierProof: Bool { true }
    public var isInteractive: Bool { true }
}

extension PresenceAuthority {
    /// Prompts for a PIN and returns it.
    ///
    /// - Throws: ``KeystoreError``: the errors of ``pin(_:)``, and `cancelled` if the user declines
    ///   or the task is cancelled.
    package func givenPIN(_ request: PINRequest) async throws(KeystoreError) -> PIN {
        switch try await pin(request) {
        case .declined(let reason): throw .cancelled(reason)
        case .pin(let pin):
            guard !Task.isCancelled else { throw .cancelled() }
            return pin
        }
    }
}

/// A request for a PIN.
public struct PINRequest: Hashable, Sendable {
    /// The kind of PIN.
    public enum Purpose: Hashable, Sendable {
        /// The PIN that is set now.
        case current
        /// A new PIN. An interactive authority prompts for it twice and compares.
        case new
        /// The PIN of the token's security officer, for creating keys that the user PIN cannot
        /// create: the SO PIN of PKCS#11, or the management key of a YubiKey as 48 hexadecimal
        /// digits.
        case securityOfficer
        /// The token's code for unblocking its PIN (PUK).
        case unblocking
        /// The lockout password of the TPM (lockoutAuth), which resets its count of wrong PINs.
        /// Display the context's reason: it states for how long a wrong password disables this
        /// reset.
        case lockoutPassword
    }

    /// The kind of PIN.
    public var purpose: Purpose
    /// The text of the prompt.
    public var context: PromptContext
    /// The number of wrong PINs before the lockout, or nil if unknown. Display it.
    public var attemptsLeft: Int?
    /// A sentence for the prompt: a warning, or a rule for a new PIN in place of
    /// ``minimumCharacters``; nil if there is neither.
    public package(set) var hint: String?
    /// The minimum length of a new PIN. An interactive authority states it, and prompts again for a
    /// shorter one. The hardware states it: a TPM without a lockout password requires 6 characters, a
    /// token its own number. An authority that returns a shorter PIN ends the operation with
    /// `invalidInput`.
    public package(set) var minimumCharacters = PIN.minimumCharacters

    /// The secret for the purpose `securityOfficer`, if it is known.
    package var officerSecret: OfficerSecret?

    /// The secret that a PIV card requires for creating keys.
    package enum OfficerSecret: Hashable, Sendable {
        /// The card's management key. With `orPIN`, the card may accept its PIN instead.
        case managementKey(orPIN: Bool)
        /// The card's PIN, under which it stores its management key.
        case protectingPIN
    }

    /// A request for a PIN.
    public init(purpose: Purpose, context: PromptContext, attemptsLeft: Int? = nil) {
        self.purpose = purpose
        self.context = context
        self.attemptsLeft = attemptsLeft
    }
}

/// The result of a prompt for a PIN. A user who declines is a result, not an error.
public enum PINAnswer: Sendable {
    /// The typed PIN. The hardware decides whether it is right.
    case pin(PIN)
    /// The user declined, closed the prompt, or did not answer in time. The text says which.
    case declined(String)
}

extension PINAnswer {
    /// The text of an answer that the user declined.
    package static let userDeclined = "you declined"
}

/// The text of a prompt for a PIN or a fingerprint.
public struct PromptContext: Hashable, Sendable {
    /// The reason, as the end of "APPLICATION asks for your PIN to …": `log in to example.com`.
    public var reason: String
    /// The container that the prompt is for.
    public var container: String

    /// Creates the text. Both values are displayed: do not pass text from an untrusted source.
    public init(reason: String, container: String = "default") {
        self.reason = reason
        self.container = container
    }
}

/// A message for the user that needs no answer: an action at the hardware that requires no typed
/// PIN, or a lockout.
public enum PresenceNotice: Hashable, Sendable {
    /// Use the reader's own PIN pad or fingerprint sensor: the token accepts no PIN from this
    /// program.
    case useReader(PromptContext)
    /// Touch the token, which waits for it.
    case touch(PromptContext)
    /// The hardware refuses every proof, and no stronger proof has lifted the lockout. `reason` is
    /// the cause as a clause. `recovery` is the next step, in sentences. `until` is the end of the
    /// lockout; nil if time does not end it or the end is unknown.
    case lockedOut(reason: String, recovery: String, until: Date?)
}

/// The kind of proof to request if a key accepts several.
public enum PresencePreference: String, Sendable, CaseIterable {
    /// Prompt for both; the first proof counts.
    case any
    /// Prompt for the PIN only.
    case pin
    /// Prompt for a fingerprint only.
    case finger
}

/// A presence authority that never prompts: it answers every request with `unavailable`. It accepts
/// no earlier proof, so its results never depend on an earlier prompt.
public struct NobodyPresent: PresenceAuthority {
    /// Creates an authority that never prompts.
    public init() {}

    public var acceptsEarlierProof: Bool { false }
    public var isInteractive: Bool { false }

    public func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        throw KeystoreError(
            operation: request.context.reason, code: .unavailable,
            reason: "user verification is required, and this program cannot prompt for it",
            recovery: "Run it where it can prompt, or pass a presence authority.")
    }
}
