/// Where a key is kept, and which user verification its hardware enforces.
///
/// Latchkey has no software keys, so there is no lower level.
public struct AssuranceLevel: Hashable, Sendable, Codable, CustomStringConvertible {
    /// The hardware that contains the private key.
    public enum Root: String, Sendable, Codable, CaseIterable {
        /// A TPM 2.0, or a program that reports to be one: only an attestation proves a chip.
        case tpm
        /// A PKCS#11 token.
        case token
        /// A software TPM, for development and CI. It is as secure as the machine that it runs on.
        case swtpm
        /// A software token, for development and CI.
        case softhsm
    }

    /// The user verification that the hardware requires before it uses the key.
    public enum EnforcedPresence: String, Sendable, Codable, CaseIterable {
        /// No user verification.
        case none
        /// The PIN.
        case pin
        /// A fingerprint.
        case finger
        /// A fingerprint or the PIN.
        case fingerOrPIN = "finger-or-pin"
        /// A touch of the token.
        case touch
        /// A touch of the token and the PIN.
        case touchAndPIN = "touch-and-pin"
        /// The token does not prove that the key requires the PIN: an adopted key on a PIV card
        /// without an attestation of its PIN policy. Treat it like ``none`` where the hardware must
        /// enforce user verification.
        case unknown

        /// Whether a PIN opens the key, or may open it.
        package var includesPIN: Bool {
            switch self {
            case .pin, .fingerOrPIN, .touchAndPIN, .unknown: true
            case .none, .finger, .touch: false
            }
        }
    }

    /// The counter of wrong PINs.
    package enum PINProtection: String, Sendable, Codable, CaseIterable {
        /// The hardware's counter, shared by all users of the hardware.
        case device
        /// The user's own counter, which the presence broker can reset.
        case user
    }

    /// The hardware that contains the private key.
    public let root: Root
    /// The user verification that the hardware enforces.
    public let presence: EnforcedPresence
    /// `true` if the user's own counter replaces the hardware's.
    private let perUserPIN: Bool?

    /// Creates a level. A key that no PIN opens ignores `pinProtection`.
    package init(root: Root, presence: EnforcedPresence, pinProtection: PINProtection = .device) {
        self.root = root
        self.presence = presence
        perUserPIN = pinProtection == .user ? true : nil
    }

    /// The counter of wrong PINs; nil if no PIN opens the key, and for a software token: SoftHSM2
    /// never locks, and other software tokens may accept any number of wrong PINs.
    package var pinProtection: PINProtection? {
        guard presence.includesPIN, root != .softhsm else { return nil }
        return perUserPIN == true ? .user : .device
    }

    /// Whether real hardware contains the key, not a simulator.
    public var isHardware: Bool {
        switch root {
        case .tpm, .token: true
        case .swtpm, .softhsm: false
        }
    }

    /// `hardware(tpm)`, `hardware(token)`, `simulated(swtpm)` or `simulated(softhsm)`.
    public var description: String {
        isHardware ? "hardware(\(root.rawValue))" : "simulated(\(root.rawValue))"
    }
}
