/// A PKCS#11 module, loaded once in this process however many tokens use it.
final class Module: Sendable {
    /// The file, with symbolic links resolved.
    let path: String
    let information: ModuleInformation
    let profile: ModuleProfile
    /// Whether it runs in a process of its own.
    let isIsolated: Bool

    init(path: String, information: ModuleInformation, isIsolated: Bool) {
        self.path = path
        self.information = information
        profile = ModuleProfile(for: information)
        self.isIsolated = isIsolated
    }

    /// The module in a file. A path without a slash is looked for in p11-kit's module directory.
    ///
    /// - Throws: ``CryptokiError``; `module` with what is wrong with it, `wedged`.
    static func load(_ path: String, options: TokenOptions = TokenOptions()) async throws(CryptokiError) -> Module {
        throw CryptokiError(.module(.missing), reason: "\(path) does not exist")
    }

    /// Counts re-initialisations: what was obtained from the module (slots, sessions, handles) holds within one epoch.
    /// Whoever keeps something on the side, such as a libp11 context, abandons it when this has changed.
    var epoch: Int { 0 }
}
