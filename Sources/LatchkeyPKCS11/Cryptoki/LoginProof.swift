internal import Latchkey

/// What is shown to a token to log in.
enum LoginProof: Sendable {
    case pin(PIN)
    /// A management key, SO PIN or PUK, as the bytes that the module takes (ykcs11: 48 hexadecimal digits).
    case secret(SecretBytes)
    /// Nothing: the token asks for PIN or finger by itself (`C_Login` with a null PIN).
    case protectedPath
}
