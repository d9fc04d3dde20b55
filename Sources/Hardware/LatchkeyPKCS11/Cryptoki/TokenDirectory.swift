package import Latchkey

/// The modules and tokens of this machine, as in `latchkey token list`.
public struct TokenDirectory: Sendable {
    /// A token and its module.
    public struct Entry: Hashable, Sendable {
        /// A URI with the token's manufacturer, model, serial number and label, and its module.
        public let uri: TokenURI
        package let information: TokenInformation
        /// The module's file.
        package let modulePath: String
        package let module: ModuleInformation
        /// The version of the module, as its makers write it.
        package var moduleVersion: String { ModuleProfile(for: module).text(of: module.version) }
        /// The version of the token's firmware, as its makers write it.
        package var firmwareVersion: String {
            ModuleProfile(for: module).text(of: information.firmwareVersion)
        }
        /// `swtpm` or `softhsm` for a software token; nil for a token that reports to be hardware.
        package let simulator: String?
    }

    /// A module that could not be used.
    public struct Failure: Sendable {
        /// The module's file.
        public let modulePath: String
        package let error: CryptokiError

        /// The cause, as a clause.
        public var reason: String { error.reason }

        package var keystoreError: KeystoreError {
            KeystoreError(error).during("use the module \(modulePath)")
        }
    }

    /// The tokens that were found.
    public let tokens: [Entry]
    /// The modules that could not be used.
    public let failures: [Failure]

    /// The names of the modules that p11-kit configures, in alphabetical order. Loads none of them.
    package static var configuredModuleNames: [String] { ConfiguredModules().entries.map(\.name) }

    /// Reads the tokens of the modules that p11-kit configures, and of those in `paths`. A module
    /// that hangs becomes a failure after its deadline and does not delay the others.
    ///
    /// - Parameters:
    ///   - configured: Whether to read the modules that p11-kit configures.
    ///   - paths: Files of other modules.
    ///   - options: How the modules are loaded.
    public static func read(
        configured: Bool = true, paths: [String] = [], options: TokenOptions = TokenOptions()
    ) async -> TokenDirectory {
        let modules = ConfiguredModules()
        return await read(
            paths: (configured ? modules.entries.map(\.path) : []) + paths, options: options,
            skipped: configured ? modules.failures : [])
    }

    /// - Parameter skipped: The configurations that are not used.
    private static func read(
        paths: [String], options: TokenOptions, skipped: [Failure]
    ) async -> TokenDirectory {
        return await withTaskGroup { group in
            for path in Module.files(paths) {
                group.addTask { await readModule(path, options) }
            }
            var parts: [TokenDirectory] = []
            for await part in group { parts.append(part) }
            return TokenDirectory(
                tokens: parts.flatMap(\.tokens).sorted { $0.uri.string < $1.uri.string },
                failures: (parts.flatMap(\.failures) + skipped)
                    .sorted { $0.modulePath < $1.modulePath })
        }
    }

    private static func readModule(_ path: String, _ options: TokenOptions) async -> TokenDirectory
    {
        do throws(CryptokiError) {
            let module = try await Module.load(path, options: options)
            var tokens: [Entry] = []
            var failures: [Failure] = []
            for report in try await module.tokensInSlots() {
                do throws(CryptokiError) {
                    let information = try report.get()
                    tokens.append(
                        Entry(
                            uri: try TokenURI(naming: information, modulePath: module.path),
                            information: information,
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

extension TokenDirectory {
    /// Reads the modules that a URI may mean, and returns the tokens that match it.
    ///
    /// - Parameter isMatching: Whether to return only the tokens that match.
    package static func read(
        _ uri: TokenURI, isMatching: Bool = true, options: TokenOptions = TokenOptions()
    ) async -> TokenDirectory {
        let paths: [String]
        do throws(CryptokiError) {
            paths = try uri.modulePaths()
        } catch {
            return TokenDirectory(
                tokens: [],
                failures: [Failure(modulePath: uri.moduleName ?? uri.string, error: error)])
        }
        let all = await read(
            paths: paths, options: options,
            skipped: uri.namesModule ? [] : ConfiguredModules().failures)
        guard isMatching else { return all }
        return TokenDirectory(
            tokens: all.tokens.filter { uri.matches($0.information) }, failures: all.failures)
    }
}

extension [TokenDirectory.Entry] {
    /// The initialized tokens, or all if none is initialized: SoftHSM2 always shows an
    /// uninitialized one.
    package var preferringInitialized: [TokenDirectory.Entry] {
        let initialized = filter { $0.information.flags.contains(.initialized) }
        return initialized.isEmpty ? self : initialized
    }
}

extension ConfiguredModules {
    /// The configurations that are not used.
    fileprivate var failures: [TokenDirectory.Failure] {
        remotes.map { name in
            TokenDirectory.Failure(
                modulePath: "\(name).module",
                error: CryptokiError(
                    .unsupported,
                    reason: "its configuration has `remote:` and names no module file",
                    recovery: Recovery(
                        "Run `p11-kit server` for the remote token, and name p11-kit-client.so with `module-path=` in the URI."
                    )))
        }
            + untrusted.map { path in
                TokenDirectory.Failure(
                    modulePath: path,
                    error: CryptokiError(
                        .module(.writableByOthers),
                        reason:
                            "\(path) can be changed by users other than root and this user, so it names no module"
                    ))
            }
    }
}
