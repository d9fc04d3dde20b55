extension TokenURI {
    /// The URI with the module's attributes where RFC 7512 section 2.4 has them: in the query. Many people write them
    /// among the token's attributes, which p11-kit refuses.
    static func withModuleInQuery(_ text: String) -> String {
        let parts = text.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard let path = parts.first, path.hasPrefix("pkcs11:") else { return text }
        let attributes = path.dropFirst("pkcs11:".count).split(separator: ";")
        let names = ["module-path=", "module-name="]
        let ofModule = attributes.filter { attribute in names.contains { attribute.hasPrefix($0) } }
        guard !ofModule.isEmpty else { return text }
        let ofToken = attributes.filter { attribute in !names.contains { attribute.hasPrefix($0) } }
        let query = ofModule + parts.dropFirst()
        return "pkcs11:\(ofToken.joined(separator: ";"))?\(query.joined(separator: "&"))"
    }
}
