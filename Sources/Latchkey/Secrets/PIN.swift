internal import Foundation  // for canonical composition, which FoundationEssentials lacks

/// A PIN: at least 4 characters of any script, at most 256 bytes in UTF-8.
///
/// Two spellings that people can't tell apart (composed and decomposed characters) are one PIN: the text is put into
/// Unicode normalization form C first. A PIN prints as `‹PIN›`.
///
/// A keystore may ask for more. On a TPM with an empty lockout password every user of the TPM can reset the count of wrong
/// PINs; there a new PIN that this count guards has at least 6 characters, unless the program allows short ones.
public struct PIN: Sendable, Equatable {
    /// The fewest characters (extended grapheme clusters) that a new PIN may have.
    public static let minimumCharacters = 4
    /// The most bytes that a PIN may have in UTF-8.
    public static let maximumBytes = 256

    private let secret: SecretBytes
    /// How many characters (extended grapheme clusters) it has.
    package let characterCount: Int

    /// - Throws: ``KeystoreError`` with code `invalidInput` when the text is too short, too long or holds a control
    ///   character.
    public init(_ text: String) throws(KeystoreError) {
        let normalized = text.precomposedStringWithCanonicalMapping
        guard normalized.count >= Self.minimumCharacters else {
            throw .invalidInput("read a PIN", "it has fewer than \(Self.minimumCharacters) characters")
        }
        guard normalized.utf8.count <= Self.maximumBytes else {
            throw .invalidInput("read a PIN", "it has more than \(Self.maximumBytes) bytes")
        }
        guard !normalized.unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) else {
            throw .invalidInput("read a PIN", "it has a control character")
        }
        secret = SecretBytes(normalized.utf8)
        characterCount = normalized.count
    }

    /// A PIN from the bytes that were typed. ASCII goes straight from the caller's buffer into locked memory; other
    /// scripts pass through a string on the way to normalization form C.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput`, as ``init(_:)`` does, and for bytes that are not UTF-8.
    package init(utf8 bytes: UnsafeRawBufferPointer) throws(KeystoreError) {
        let isPlain = bytes.allSatisfy { (32..<127).contains($0) }
        guard !isPlain || !(Self.minimumCharacters...Self.maximumBytes).contains(bytes.count) else {
            self.init(secret: SecretBytes(count: bytes.count) { $0.copyMemory(from: bytes) })
            return
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw .invalidInput("read a PIN", "it is not text in UTF-8")
        }
        try self.init(text)
    }

    /// - Parameter secret: ASCII, one byte for each character.
    private init(secret: SecretBytes) {
        self.secret = secret
        characterCount = secret.count
    }

    /// Lends the UTF-8 bytes of the PIN to `body`.
    package func withUnsafeBytes<R, E: Error>(_ body: (UnsafeRawBufferPointer) throws(E) -> R) throws(E) -> R {
        try secret.withUnsafeBytes(body)
    }
}

extension PIN: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String { "‹PIN›" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }
}
