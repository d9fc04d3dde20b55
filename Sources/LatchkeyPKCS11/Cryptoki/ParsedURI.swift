internal import CPKCS11
internal import Glibc

/// p11-kit's own form of a PKCS#11 URI.
final class ParsedURI {
    private let uri: OpaquePointer

    /// - Throws: `invalidURI`, without the text.
    init(_ text: String) throws(CryptokiError) {
        uri = try Self.make()
        let status = p11_kit_uri_parse(text, P11_KIT_URI_FOR_ANY, uri)
        guard status == P11_KIT_URI_OK.rawValue else {
            throw CryptokiError(.invalidURI, reason: "it is no PKCS#11 URI (RFC 7512): \(Self.message(status))")
        }
    }

    init(token: TokenInformation, modulePath: String) throws(CryptokiError) {
        uri = try Self.make()
        if let info = p11_kit_uri_get_token_info(uri) {
            info.pointee = token.cryptokiInfo
        }
        p11_kit_uri_set_module_path(uri, modulePath)
    }

    deinit { p11_kit_uri_free(uri) }

    private static func make() throws(CryptokiError) -> OpaquePointer {
        guard let uri = p11_kit_uri_new() else {
            throw CryptokiError(.invalidURI, reason: "there is no memory for it")
        }
        return uri
    }

    private static func message(_ status: Int32) -> String {
        p11_kit_uri_message(status).map { String(cString: $0) } ?? "code \(status)"
    }

    var pinValue: Void? { p11_kit_uri_get_pin_value(uri).map { _ in } }
    var pinSource: Void? { p11_kit_uri_get_pin_source(uri).map { _ in } }
    var hasUnrecognized: Bool { p11_kit_uri_any_unrecognized(uri) != 0 }
    var modulePath: String? { p11_kit_uri_get_module_path(uri).map { String(cString: $0) } }
    var moduleName: String? { p11_kit_uri_get_module_name(uri).map { String(cString: $0) } }

    /// Whether it has `slot-id`, `slot-description` or `slot-manufacturer`.
    var namesSlot: Bool {
        let info = p11_kit_uri_get_slot_info(uri)?.pointee
        return p11_kit_uri_get_slot_id(uri) != CK_SLOT_ID.max
            || info?.slotDescription.0 ?? 0 != 0 || info?.manufacturerID.0 ?? 0 != 0
    }

    /// Whether it has `library-description`, `library-manufacturer` or `library-version`.
    var namesLibrary: Bool {
        guard let info = p11_kit_uri_get_module_info(uri)?.pointee else { return false }
        // p11-kit keeps 255 for a version that is not given.
        let hasVersion = info.libraryVersion.major != .max || info.libraryVersion.minor != .max
        return info.libraryDescription.0 != 0 || info.manufacturerID.0 != 0 || hasVersion
    }

    func formatted() throws(CryptokiError) -> String {
        var text: UnsafeMutablePointer<CChar>?
        let status = p11_kit_uri_format(uri, P11_KIT_URI_FOR_ANY, &text)
        guard status == P11_KIT_URI_OK.rawValue, let text else {
            throw CryptokiError(.invalidURI, reason: "p11-kit can't write it: \(Self.message(status))")
        }
        defer { free(text) }
        return String(cString: text)
    }

    /// A text of the token's, nil where the URI leaves it open (its first byte is then 0).
    func tokenText<T>(_ field: KeyPath<CK_TOKEN_INFO, T>) -> String? {
        guard let info = p11_kit_uri_get_token_info(uri) else { return nil }
        return withUnsafeBytes(of: info.pointee[keyPath: field]) { bytes in
            bytes.first == 0 ? nil : String(blankPadded: bytes)
        }
    }

    func attribute(_ type: UInt) -> [UInt8]? {
        guard let attribute = p11_kit_uri_get_attribute(uri, type)?.pointee else { return nil }
        return Array(UnsafeRawBufferPointer(start: attribute.pValue, count: Int(clamping: attribute.ulValueLen)))
    }

    func matches(_ token: TokenInformation) -> Bool {
        var info = token.cryptokiInfo
        return p11_kit_uri_match_token_info(uri, &info) == 1
    }
}
