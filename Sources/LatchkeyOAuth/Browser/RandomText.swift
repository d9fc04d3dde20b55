internal import FoundationEssentials
internal import Latchkey

/// Text that nobody can guess.
package enum RandomText {
    /// 32 random bytes in base64url, 43 characters.
    package static func make() -> String {
        var generator = SystemRandomNumberGenerator()
        return Base64URL.encode(Data((0..<32).map { _ in UInt8.random(in: .min ... .max, using: &generator) }))
    }
}
