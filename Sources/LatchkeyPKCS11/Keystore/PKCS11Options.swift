/// How a ``PKCS11Keystore`` uses its token.
public struct PKCS11Options: Hashable, Sendable {
    /// Whether the token asks for the proof by itself: at a reader's pad, or with a finger.
    public enum ProtectedPath: Hashable, Sendable {
        /// As the token says (`CKF_PROTECTED_AUTHENTICATION_PATH`).
        case asTokenSays
        /// It does, whatever it says. Some tokens with a finger sensor don't say so (YubiKey Bio).
        case always
        /// It does not: the PIN is typed at the computer.
        case never
    }

    /// How the module is loaded, and its deadlines.
    public var token: TokenOptions
    /// Whether the token asks for the proof by itself.
    public var protectedPath: ProtectedPath
    /// On a PIV card: where the next key is made. By default the first free slot that can enforce the policy.
    public var slot: PIVSlot?

    /// Options; by default as the token says of itself.
    public init(
        token: TokenOptions = TokenOptions(), protectedPath: ProtectedPath = .asTokenSays, slot: PIVSlot? = nil
    ) {
        self.token = token
        self.protectedPath = protectedPath
        self.slot = slot
    }
}
