public import FoundationEssentials
public import Latchkey

/// The proven properties of a key.
///
/// A value exists only after ``AttestationVerifier`` verified the key's attestation up to a trust
/// anchor.
public struct AttestationVerdict: Hashable, Sendable {
    /// The hardware that contains the key.
    public indirect enum Hardware: Hashable, Sendable {
        /// A TPM 2.0, with the attributes that its certificate states: the manufacturer as `id:`
        /// and 8 hexadecimal digits, the model, and the version of the firmware as `id:` and 8
        /// hexadecimal digits (TCG EK Credential Profile).
        case tpm(manufacturer: String, model: String, version: String)
        /// A YubiKey, with the firmware's version such as `5.4.3` and the serial number. Keys of
        /// the Security Key Series have no serial number.
        case yubiKey(firmware: String, serial: UInt64?)
        /// A simulator that pretends to be this hardware, under one of the operator's anchors for
        /// simulators.
        case simulated(Hardware)
    }

    /// What is proven about the PIN of a key.
    public enum PINProof: String, Hashable, Sendable {
        /// No PIN opens the key.
        case none
        /// The hardware requires a PIN. **Whether the PIN is empty or trivial is not known**: no
        /// hardware proves it.
        case form
    }

    /// The key. It was created in the hardware, cannot leave it, and only signs.
    public let publicKey: PublicKey
    /// The hardware that contains the key.
    public let hardware: Hardware
    /// The user verification that the hardware enforces; nil if the holder of an unknown approval
    /// key can use the key.
    public let presence: AssuranceLevel.EnforcedPresence?
    /// What is proven about the PIN.
    public let provesPIN: PINProof
    /// The number of seconds in which a user verification can be reused.
    public let reuseSeconds: Int
    /// Whether the key stops working when the user's enrolled fingers change.
    public let diesWithFingers: Bool
    /// The Names of all approval keys whose approval opens the key, 34 bytes each, in the order of
    /// its policy. If ``presence`` is nil, one of them is unknown. Empty if no approval opens the
    /// key.
    public let approvalKeys: [Data]
    /// The serial number of the certificate of the attestation key or of the YubiKey's slot F9,
    /// big-endian.
    public let certificateSerial: Data

    /// Whether the hardware is a simulator.
    public var isSimulated: Bool { if case .simulated = hardware { true } else { false } }

    /// Whether the key meets a requirement.
    public func meets(_ requirement: AttestationRequirement) -> Bool {
        refusal(under: requirement) == nil
    }

    /// The reason why the key does not meet a requirement, or nil.
    func refusal(under requirement: AttestationRequirement) -> AttestationError? {
        requirement.refusal(
            isSimulated: isSimulated, presence: presence, reuseSeconds: reuseSeconds)
    }
}

/// The minimum that a server requires of an attested key.
public struct AttestationRequirement: Hashable, Sendable {
    /// The required hardware and user verification.
    public enum Level: String, Hashable, Sendable, CaseIterable {
        /// Any attested key, a simulator's too.
        case none
        /// A key in a TPM or a YubiKey, with any user verification or none.
        case hardware
        /// The hardware requires a fingerprint, a PIN or a touch. Of a PIN, only the form is
        /// proven.
        case presence
        /// A fingerprint that a known presence broker approved, and no other way to use the key.
        case finger
        /// A YubiKey that requires a touch for each use.
        case touch
    }

    /// The required hardware and user verification.
    public var level: Level
    /// The maximum number of seconds in which a fingerprint may be reused, for ``Level/finger``.
    public var maximumReuseSeconds: Int
    /// Whether keys in simulators meet the requirement.
    public var acceptsSimulated: Bool

    /// The reason why a key with these properties does not meet the requirement, or nil:
    /// `simulated`, `unknownApprovalKey` or `insufficientPresence`, in this order.
    ///
    /// - Parameter presence: nil if the holder of an unknown approval key can use the key.
    func refusal(
        isSimulated: Bool, presence: AssuranceLevel.EnforcedPresence?, reuseSeconds: Int
    ) -> AttestationError? {
        guard level != .none else { return nil }
        guard !isSimulated || acceptsSimulated else {
            return AttestationError(.simulated, "the key is in a simulator")
        }
        guard level != .hardware else { return nil }
        guard let presence else {
            return AttestationError(
                .unknownApprovalKey, "the approval key is not known as a presence broker's")
        }
        let isSufficient =
            switch level {
            case .none, .hardware: true
            case .presence: [.finger, .fingerOrPIN, .pin, .touch, .touchAndPIN].contains(presence)
            case .finger: presence == .finger && reuseSeconds <= maximumReuseSeconds
            case .touch: presence == .touch || presence == .touchAndPIN
            }
        guard isSufficient else {
            return AttestationError(
                .insufficientPresence,
                "the hardware enforces \(presence.rawValue) with a reuse of \(reuseSeconds) s; required is "
                    + "\(level.rawValue)")
        }
        return nil
    }

    /// Creates a requirement. By default it accepts no reuse and no simulators.
    public init(_ level: Level, maximumReuseSeconds: Int = 0, acceptsSimulated: Bool = false) {
        self.level = level
        self.maximumReuseSeconds = maximumReuseSeconds
        self.acceptsSimulated = acceptsSimulated
    }
}

/// The values of a server to which an attestation must be bound.
public struct AttestationExpectation: Hashable, Sendable {
    /// The form in which the statement contains the challenge.
    public enum Binding: Hashable, Sendable {
        /// A WebAuthn registration: `extraData` is `SHA-256(authData ‖ SHA-256(clientDataJSON))`
        /// (WebAuthn Level 3 section 8.3).
        /// - rpID: The host of the server.
        /// - origin: The server's origin, for example `https://id.example.com`.
        /// - credentialID: The bytes of the key's `kid`.
        case webAuthn(rpID: String, origin: String, credentialID: Data)
        /// `extraData` is the challenge itself, and the attestation object has no `authData`. For
        /// ACME, the challenge is the SHA-256 of the key authorization.
        case qualifyingData
    }

    /// The challenge that the server issued, 8 to 64 bytes: for WebAuthn the bytes of the token.
    /// Use each challenge once.
    public var challenge: Data
    /// The form in which the statement contains the challenge.
    public var binding: Binding
    /// The minimum that the server requires of the key.
    public var requirement: AttestationRequirement
    /// Whether the key must have been created after the challenge was issued: the statement is
    /// about a creation whose `outsideInfo` is the challenge.
    public var requiresNewKey: Bool

    /// Creates an expectation.
    public init(
        challenge: Data, binding: Binding, requirement: AttestationRequirement,
        requiresNewKey: Bool = false
    ) {
        self.challenge = challenge
        self.binding = binding
        self.requirement = requirement
        self.requiresNewKey = requiresNewKey
    }

    /// Creates the expectation for the key of a set-up request: the statement must contain the
    /// request's challenge, the key's name and this server.
    ///
    /// - Parameters:
    ///   - request: A request that ``BiometricRequestVerifier/verifySetup(_:for:)`` has verified,
    ///     which used up its challenge.
    ///   - kid: The name of the key in the result of the verification.
    ///   - issuer: The server's issuer, exactly as in its discovery document.
    ///   - requirement: The minimum that the server requires of the key.
    /// - Throws: ``BiometricRequestError`` with code `unacceptable` for a request without a challenge:
    ///   it was not verified, and nothing limits the age of its statement.
    public init(
        of request: BiometricRequest, kid: KeyID, issuer: String,
        requirement: AttestationRequirement
    ) throws(BiometricRequestError) {
        self.init(
            token: try request.challenge, kid: kid, issuer: issuer, requirement: requirement)
    }

    /// - Parameter token: The token of the challenge of a signed request, which was used up.
    package init(
        token: String, kid: KeyID, issuer: String, requirement: AttestationRequirement
    ) {
        self.init(
            challenge: Data(token.utf8),
            binding: .webAuthn(
                rpID: URL(string: issuer)?.host() ?? "", origin: issuer,
                credentialID: Data(kid.rawValue.utf8)),
            requirement: requirement)
    }
}

/// The approval keys of the presence brokers that a server knows.
///
/// An approval key is an ordinary TPM key, and any process can create one. So a fingerprint is
/// proven only if the server knows that the approval key is a presence broker's.
public protocol ApprovalKeyRegistry: Sendable {
    /// Whether a key is the approval key of the presence broker in the TPM that contains an
    /// attestation key.
    ///
    /// - Parameters:
    ///   - name: The Name of the approval key, 34 bytes.
    ///   - attestationKey: The attestation key that made the statement, as in its certificate.
    func isApprovalKey(_ name: Data, inTPMOf attestationKey: PublicKey) async throws -> Bool
}

/// A list of approval keys from the server's configuration, which is not bound to a TPM.
/// `latchkey-presenced --print-name` prints a Name.
public struct ListedApprovalKeys: ApprovalKeyRegistry, Hashable {
    private let names: Set<Data>

    /// Creates a list.
    ///
    /// - Parameter names: Names of approval keys, 34 bytes each.
    public init(_ names: Set<Data>) { self.names = names }

    public func isApprovalKey(_ name: Data, inTPMOf attestationKey: PublicKey) async throws -> Bool
    {
        names.contains(name)
    }
}
