internal import Foundation  // for canonical composition, which FoundationEssentials lacks

/// A PIN: at least 4 characters of any script, at most 256 bytes in UTF-8.
///
/// Composed and decomposed characters that look the same give the same PIN: the text is converted
/// to Unicode normalization form C first. A PIN prints as `‹PIN›`.
///
/// A keystore can require more. If a TPM's lockout password is empty, every user of the TPM can
/// reset its counter of wrong PINs. A new PIN that this counter protects then needs at least 6
/// characters, unless the program allows short ones.
public struct PIN: Sendable, Equatable {
    /// The minimum length of a new PIN in characters (extended grapheme clusters).
    package static let minimumCharacters = 4
    /// The maximum length of a PIN in bytes of UTF-8.
    package static let maximumBytes = 256

    private let secret: SecretBytes
    /// The length in characters (extended grapheme clusters).
    package let characterCount: Int
    /// Whether the hardware has checked the PIN as the existing PIN of a container, and it answers a
    /// request for a new one. The rules for new PINs apply only to a PIN that the user chooses now.
    package var isExisting = false

    /// - Throws: ``KeystoreError`` with code `invalidInput` if the text is too short, too long or
    ///   contains a control character.
    public init(_ text: String) throws(KeystoreError) {
        var text = text
        if let plain = text.withUTF8({ Self.plainSecret(UnsafeRawBufferPointer($0)) }) {
            secret = plain
            characterCount = plain.count
            return
        }
        let normalized = text.precomposedStringWithCanonicalMapping
        guard normalized.count >= Self.minimumCharacters else {
            throw KeystoreError.invalidInput(
                "the PIN has fewer than \(Self.minimumCharacters) characters"
            ).during(
                "read a PIN")
        }
        guard normalized.utf8.count <= Self.maximumBytes else {
            throw KeystoreError.invalidInput("the PIN has more than \(Self.maximumBytes) bytes")
                .during("read a PIN")
        }
        guard
            !normalized.unicodeScalars.contains(where: { $0.properties.generalCategory == .control }
            )
        else {
            throw KeystoreError.invalidInput("the PIN contains a control character").during(
                "read a PIN")
        }
        secret = SecretBytes(normalized.utf8)
        characterCount = normalized.count
    }

    /// Creates a PIN from typed bytes. ASCII is copied directly from the caller's buffer into
    /// locked memory; other scripts pass through a string for normalization.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput`, as ``init(_:)`` does, and for bytes
    ///   that are not UTF-8.
    package init(utf8 bytes: UnsafeRawBufferPointer) throws(KeystoreError) {
        if let plain = Self.plainSecret(bytes) {
            self.init(secret: plain)
            return
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw KeystoreError.invalidInput("the PIN is not text in UTF-8").during("read a PIN")
        }
        try self.init(text)
    }

    /// Copies a valid PIN of printable ASCII, which normalization does not change. Returns nil for
    /// any other text.
    private static func plainSecret(_ bytes: UnsafeRawBufferPointer) -> SecretBytes? {
        guard (minimumCharacters...maximumBytes).contains(bytes.count),
            bytes.allSatisfy({ (32..<127).contains($0) })
        else { return nil }
        return SecretBytes(count: bytes.count) { $0.copyMemory(from: bytes) }
    }

    /// - Parameter secret: ASCII, one byte for each character.
    private init(secret: SecretBytes) {
        self.secret = secret
        characterCount = secret.count
    }

    public static func == (left: PIN, right: PIN) -> Bool { left.secret == right.secret }

    /// Passes the UTF-8 bytes of the PIN to `body`.
    package func withUnsafeBytes<R, E: Error>(_ body: (UnsafeRawBufferPointer) throws(E) -> R)
        throws(E) -> R
    {
        try secret.withUnsafeBytes(body)
    }
}

extension PIN: RedactedValue {
    public var description: String { "‹PIN›" }
}
