internal import Latchkey

/// What is shown to a token to log in.
enum LoginProof: Sendable {
    case pin(PIN)
    /// A management key, SO PIN or PUK, as the bytes that the module takes (ykcs11: 48 hexadecimal digits).
    case secret(SecretBytes)
    /// Nothing: the token asks for PIN or finger by itself (`C_Login` with a null PIN).
    case protectedPath

    /// Lends the bytes as Cryptoki takes them: not to be written to, though the type allows it. Null for none.
    func withBytes<R>(
        _ body: (UnsafeMutablePointer<UInt8>?, UInt) throws(CryptokiError) -> R
    ) throws(CryptokiError) -> R {
        func lend(_ bytes: UnsafeRawBufferPointer) throws(CryptokiError) -> R {
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
