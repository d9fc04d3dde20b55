/// What a key can promise: where it lives, and which presence that hardware itself enforces.
///
/// There is no level below these: Latchkey has no software keys.
public struct AssuranceLevel: Hashable, Sendable, Codable, CustomStringConvertible {
    /// What holds the private key.
    public enum Root: String, Sendable, Codable, CaseIterable {
        /// A TPM 2.0.
        case tpm
        /// A PKCS#11 token.
        case token
        /// A software TPM: for development and CI, and worth what its host is worth.
        case swtpm
        /// A software token: likewise.
        case softhsm
    }

    /// What the hardware demands before it uses the key.
    public enum EnforcedPresence: String, Sendable, Codable, CaseIterable {
        /// Nobody need be there.
        case none
        /// The PIN.
        case pin
        /// A finger.
        case finger
        /// A finger or the PIN.
        case fingerOrPIN = "finger-or-pin"
        /// A touch of the token.
        case touch
        /// A touch of the token and the PIN.
        case touchAndPIN = "touch-and-pin"
    }

    /// What counts wrong PINs.
    public enum PINProtection: String, Sendable, Codable, CaseIterable {
        /// The hardware's own guard, which all its users share.
        case device
        /// A count of the user's own, which the presence broker can reset.
        case user
    }

    /// What the key is rooted in.
    public let root: Root
    /// Who must be there, by the hardware's own check.
    public let presence: EnforcedPresence
    /// Set where a user's own count stands in place of the hardware's guard.
    private let perUserPIN: Bool?

    /// What a keystore says of its key. What guards the PIN is dropped where no PIN is asked for.
    public init(root: Root, presence: EnforcedPresence, pinProtection: PINProtection = .device) {
        self.root = root
        self.presence = presence
        perUserPIN = pinProtection == .user ? true : nil
    }

    /// What counts wrong PINs; nil where no PIN opens the key.
    public var pinProtection: PINProtection? {
        switch presence {
        case .pin, .fingerOrPIN, .touchAndPIN: perUserPIN == true ? .user : .device
        case .none, .finger, .touch: nil
        }
    }

    /// Whether the key is held by real hardware, as opposed to a simulator.
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
