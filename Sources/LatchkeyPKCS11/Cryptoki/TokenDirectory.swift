/// The modules and tokens of this machine: what `latchkey token list` shows.
public struct TokenDirectory: Sendable {
    /// A token and where it was found.
    public struct Entry: Hashable, Sendable {
        /// What names it and no other: manufacturer, model, serial and label.
        public let uri: TokenURI
        /// What it says of itself.
        package let information: TokenInformation
        /// The module's file.
        public let modulePath: String
        /// What its module says of itself.
        package let module: ModuleInformation
        /// `swtpm` or `softhsm` for a token that is software; nil for what says that it is hardware.
        public let simulator: String?
    }

    /// A module that shows nothing, and why.
    public struct Failure: Sendable {
        /// The module's file.
        public let modulePath: String
        /// What went wrong.
        package let error: CryptokiError

        /// Why, a clause.
        public var reason: String { error.reason }
    }

    /// The tokens that were found.
    public let tokens: [Entry]
    /// The modules that could not be used. Never hidden.
    public let failures: [Failure]

    /// The names of the modules that ``read(configured:paths:options:)`` reads from p11-kit's configuration, in
    /// alphabetical order. Loads none of them.
    package static var configuredModuleNames: [String] { ConfiguredModules().entries.map(\.name) }

    /// Reads the modules that p11-kit is configured with, and those in `paths`, each in its own time: one that hangs
    /// is a failure after its deadline and holds up no other.
    ///
    /// - Parameter configured: Whether p11-kit's own configuration is read.
    public static func read(
        configured: Bool = true, paths: [String] = [], options: TokenOptions = TokenOptions()
    ) async -> TokenDirectory {
        let all = (configured ? ConfiguredModules().entries.map(\.path) : []) + paths
        // One module may be configured under two names.
        let resolved = all.map { (try? ModuleRegistry.resolve($0)) ?? $0 }
        let unique = Set(resolved).sorted()
        return await withTaskGroup { group in
            for path in unique {
                group.addTask { await read(path, options) }
            }
            var parts: [TokenDirectory] = []
            for await part in group { parts.append(part) }
            return TokenDirectory(
                tokens: parts.flatMap(\.tokens).sorted { $0.uri.string < $1.uri.string },
                failures: parts.flatMap(\.failures).sorted { $0.modulePath < $1.modulePath })
        }
    }

    private static func read(_ path: String, _ options: TokenOptions) async -> TokenDirectory {
        do throws(CryptokiError) {
            let module = try await Module.load(path, options: options)
            var tokens: [Entry] = []
            var failures: [Failure] = []
            for report in try await module.slotReports() {
                do throws(CryptokiError) {
                    let information = try report.token.get()
                    tokens.append(
                        Entry(
                            uri: try TokenURI(naming: information, modulePath: module.path), information: information,
                            modulePath: module.path, module: module.information,
                            simulator: information.simulator(behind: module.profile)))
                } catch {
                    failures.append(Failure(modulePath: module.path, error: error))
                }
            }
            return TokenDirectory(tokens: tokens, failures: failures)
        } catch {
            return TokenDirectory(tokens: [], failures: [Failure(modulePath: path, error: error)])
        }
    }
}
