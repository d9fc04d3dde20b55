internal import Latchkey

/// The proof for a login.
enum LoginProof: Equatable, Sendable {
    case pin(PIN)
    /// A management key, SO PIN or PUK, as the bytes that the module accepts (ykcs11: 48
    /// hexadecimal digits).
    case secret(SecretBytes)
    /// No bytes: the token itself prompts for a PIN or fingerprint (`C_Login` with a null PIN).
    case protectedPath

    /// Whether the user gives the proof at the token, which takes time.
    var isVerifiedByToken: Bool { if case .protectedPath = self { true } else { false } }

    /// Passes the bytes in Cryptoki's type; `body` must not write to them. Null for
    /// ``protectedPath``.
    func withBytes<R, E: Error>(_ body: (UnsafeMutablePointer<UInt8>?, UInt) throws(E) -> R)
        throws(E) -> R
    {
        func lend(_ bytes: UnsafeRawBufferPointer) throws(E) -> R {
            let pointer = bytes.baseAddress.map {
                UnsafeMutableRawPointer(mutating: $0).assumingMemoryBound(to: UInt8.self)
            }
            return try body(pointer, UInt(bytes.count))
        }
        switch self {
        case .pin(let pin): return try pin.withUnsafeBytes(lend)
        case .secret(let secret): return try secret.withUnsafeBytes(lend)
        case .protectedPath: return try body(nil, 0)
        }
    }
}

/// The role of a login: `CKU_USER` or `CKU_SO`.
enum LoginRole: UInt, Hashable, Sendable {
    case securityOfficer = 0
    case user = 1
}
