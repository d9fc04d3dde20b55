extension TokenDirectory {
    /// Reads the modules that a URI may mean, and keeps the tokens that it fits.
    ///
    /// - Parameter isMatching: false to keep every token of those modules.
    public static func read(
        _ uri: TokenURI, isMatching: Bool = true, options: TokenOptions = TokenOptions()
    ) async -> TokenDirectory {
        let paths: [String]
        do throws(CryptokiError) {
            paths = try uri.modulePaths()
        } catch {
            return TokenDirectory(
                tokens: [], failures: [Failure(modulePath: uri.moduleName ?? uri.string, error: error)])
        }
        let all = await read(configured: false, paths: paths, options: options)
        guard isMatching else { return all }
        return TokenDirectory(tokens: all.tokens.filter { uri.matches($0.information) }, failures: all.failures)
    }
}

extension [TokenDirectory.Entry] {
    /// Without slots that are not initialised, where there are others: SoftHSM2 always shows a free one, which no use means.
    package var preferringInitialized: [TokenDirectory.Entry] {
        let initialized = filter { $0.information.flags.contains(.initialized) }
        return initialized.isEmpty ? self : initialized
    }
}
