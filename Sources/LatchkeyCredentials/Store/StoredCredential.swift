internal import Latchkey

/// A credential's rows, opened and authentic.
struct StoredCredential: Sendable {
    let token: Token
    let metadata: Record
    let protection: ProtectionClass
    let tokenGeneration: Int
}
