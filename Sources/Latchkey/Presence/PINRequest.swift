/// A request for a PIN.
public struct PINRequest: Hashable, Sendable {
    /// Which PIN is wanted.
    public enum Purpose: Hashable, Sendable {
        /// The PIN that is set now.
        case current
        /// A new one. An interactive authority asks for it twice and compares.
        case new
        /// That of the token's security officer, who may make keys where its user may not: the SO PIN of PKCS#11, on a
        /// YubiKey the management key as 48 hexadecimal digits.
        case securityOfficer
        /// The token's code for unblocking its PIN (PUK).
        case unblocking
    }

    /// Which PIN is wanted.
    public var purpose: Purpose
    /// What the person is told.
    public var context: PromptContext
    /// How many wrong PINs the hardware will still take, where it says so. Show it.
    public var attemptsLeft: Int?

    /// A request for a PIN.
    public init(purpose: Purpose, context: PromptContext, attemptsLeft: Int? = nil) {
        self.purpose = purpose
        self.context = context
        self.attemptsLeft = attemptsLeft
    }
}
