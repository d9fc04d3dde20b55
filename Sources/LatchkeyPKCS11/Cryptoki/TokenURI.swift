internal import CPKCS11
package import FoundationEssentials
internal import Glibc

/// A PKCS#11 URI (RFC 7512): which token, and with `id` or `object` which key on it.
///
/// p11-kit parses and matches. What is not given matches everything. A URI with `pin-value` is refused (it would put a
/// secret where every process can read it), and `pin-source` is refused since nothing follows it.
public struct TokenURI: Hashable, Sendable {
    /// The URI in p11-kit's spelling.
    public let string: String
    /// `token`: the token's label.
    public let label: String?
    /// Who made the token, or nil for anybody.
    public let manufacturer: String?
    /// Its model, or nil for any.
    public let model: String?
    /// Its serial number, or nil for any.
    public let serial: String?
    /// `id`: the key's `CKA_ID`, where the URI names a key.
    package let keyID: Data?
    /// `object`: the key's `CKA_LABEL`, where the URI names a key.
    package let keyLabel: String?
    /// `module-path`: the module's file, or its name in p11-kit's module directory.
    package let modulePath: String?
    /// `module-name`: the name of a module that p11-kit is configured with.
    package let moduleName: String?

    /// - Throws: ``CryptokiError`` of kind `invalidURI`. Its text never repeats the URI, which may hold a secret.
    package init(_ text: String) throws(CryptokiError) {
        let parsed = try ParsedURI(Self.withModuleInQuery(text))
        guard parsed.pinValue == nil else {
            throw CryptokiError(
                .invalidURI, reason: "the URI holds a PIN (pin-value), where every process could read it")
        }
        guard parsed.pinSource == nil else {
            throw CryptokiError(
                .invalidURI, reason: "the URI names a source for the PIN (pin-source), which is not read")
        }
        guard !parsed.hasUnrecognized else {
            throw CryptokiError(
                .invalidURI,
                reason:
                    "the URI has an attribute that p11-kit does not know (it knows token, manufacturer, model, serial, "
                    + "id, object, and after a question mark module-path and module-name)")
        }
        guard !parsed.namesSlot else {
            throw CryptokiError(
                .invalidURI,
                reason: "the URI names a slot (slot-*), which is not always the same token's: name the token")
        }
        guard !parsed.namesLibrary else {
            throw CryptokiError(
                .invalidURI, reason: "the URI describes a module (library-*), which is not read: give its module-path")
        }
        try self.init(parsed)
    }

    /// The URI that names a token and its module, and nothing less.
    init(naming token: TokenInformation, modulePath: String) throws(CryptokiError) {
        try self.init(ParsedURI(token: token, modulePath: modulePath))
    }

    private init(_ parsed: ParsedURI) throws(CryptokiError) {
        string = try parsed.formatted()
        label = parsed.tokenText(\.label)
        manufacturer = parsed.tokenText(\.manufacturerID)
        model = parsed.tokenText(\.model)
        serial = parsed.tokenText(\.serialNumber)
        keyID = parsed.attribute(CKA_ID).map { Data($0) }
        keyLabel = parsed.attribute(CKA_LABEL).map { String(decoding: $0, as: UTF8.self) }
        modulePath = parsed.modulePath
        moduleName = parsed.moduleName
    }

    /// Whether the URI names a key and not only a token.
    package var namesKey: Bool { keyID != nil || keyLabel != nil }

    /// Whether the URI fits a token. Module and key don't count.
    package func matches(_ token: TokenInformation) -> Bool {
        guard let parsed = try? ParsedURI(string) else { return false }
        return parsed.matches(token)
    }
}

extension TokenURI: CustomStringConvertible {
    public var description: String { string }
}
