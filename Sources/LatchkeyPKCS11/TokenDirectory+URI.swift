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
