internal import Glibc
internal import Synchronization

/// The modules of this process by their files, so that one file is never initialised by two parts of a program that
/// don't know of each other.
final class ModuleRegistry: Sendable {
    static let shared = ModuleRegistry()

    /// What makes two modules two: isolated with another environment, a file sees other tokens.
    private struct Key: Hashable {
        let path: String
        let isolation: TokenOptions.Isolation
        let environment: [String: String]
    }

    private let loaders = Mutex<[Key: ModuleLoader]>([:])

    private init() {}

    func module(_ path: String, options: TokenOptions) async throws(CryptokiError) -> Module {
        let file = try Self.resolve(path)
        let key = Key(
            path: file, isolation: options.isolation,
            environment: options.isolation == .never ? [:] : options.environment)
        let loader = loaders.withLock { loaders in
            if let loader = loaders[key] { return loader }
            let loader = ModuleLoader(path: file, options: options)
            loaders[key] = loader
            return loader
        }
        return try await loader.module()
    }

    /// The absolute path without symbolic links. What is not absolute is in p11-kit's module directory.
    static func resolve(_ path: String) throws(CryptokiError) -> String {
        // Never the working directory, which is whose it may be.
        let candidate = path.hasPrefix("/") ? path : "\(ConfiguredModules.moduleDirectory)/\(path)"
        guard let resolved = realpath(candidate, nil) else {
            throw CryptokiError(
                .module(.missing), reason: "there is no module \(candidate): \(String(cString: strerror(errno)))")
        }
        defer { free(resolved) }
        return String(cString: resolved)
    }
}
