internal import FoundationEssentials
internal import Glibc
internal import Latchkey

/// A directory in which SoftHSM2 keeps tokens, and the configuration that names it.
struct SoftwareTokenStore: Sendable {
    let directory: String

    /// Writes the configuration and makes room for tokens.
    init(directory: String) throws(KeystoreError) {
        self.directory = directory
        do {
            try FileManager.default.createDirectory(
                atPath: tokens, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
            let text = """
                directories.tokendir = \(tokens)
                objectstore.backend = file
                log.level = ERROR
                slots.removable = false

                """
            try Data(text.utf8).write(to: URL(filePath: configuration))
        } catch {
            throw .softwareTokenFailed("its directory can't be written", text: "\(error)")
        }
    }

    var environment: [String: String] { ["SOFTHSM2_CONF": configuration] }

    /// Copies the module, so that it can be loaded once more, as a library of its own.
    func copyModule() throws(KeystoreError) -> String {
        let copy = "\(directory)/libsofthsm2.so"
        do {
            // What is installed may be a symbolic link, which would be copied as one.
            let original = try URL(filePath: Self.installedModule).resolvingSymlinksInPath()
            try FileManager.default.copyItem(atPath: original.path, toPath: copy)
        } catch {
            throw (error as? KeystoreError) ?? .softwareTokenFailed("its module can't be copied", text: "\(error)")
        }
        return copy
    }

    /// Moves the finished tokens in one step each: no module ever sees half a token.
    func moveTokens(to other: SoftwareTokenStore) throws(KeystoreError) {
        do {
            for name in try FileManager.default.contentsOfDirectory(atPath: tokens) {
                try FileManager.default.moveItem(atPath: "\(tokens)/\(name)", toPath: "\(other.tokens)/\(name)")
            }
        } catch {
            throw .softwareTokenFailed("its files can't be moved", text: "\(error)")
        }
    }

    private var tokens: String { "\(directory)/tokens" }
    private var configuration: String { "\(directory)/softhsm2.conf" }
}

extension SoftwareTokenStore {
    /// The one store of this process, which its `SOFTHSM2_CONF` names from then on. It is removed when the process ends.
    static let ofProcess = Result<SoftwareTokenStore, KeystoreError> { () throws(KeystoreError) in
        let store = try SoftwareTokenStore(directory: processDirectory.get().path)
        for (name, value) in store.environment { setenv(name, value, 1) }
        atexit {
            guard let directory = try? SoftwareTokenStore.processDirectory.get() else { return }
            try? FileManager.default.removeItem(atPath: directory.path)
        }
        return store
    }

    private static let processDirectory = Result<TemporaryDirectory, KeystoreError> { () throws(KeystoreError) in
        try TemporaryDirectory()
    }

    /// Where distributions put SoftHSM2.
    private static let places = [
        "/usr/lib/softhsm/libsofthsm2.so", "/usr/lib64/softhsm/libsofthsm2.so", "/usr/lib64/pkcs11/libsofthsm2.so",
        "/usr/local/lib/softhsm/libsofthsm2.so",
    ]

    static var installedModule: String {
        get throws(KeystoreError) {
            guard let path = places.first(where: { FileManager.default.fileExists(atPath: $0) }) else {
                throw .softwareTokenFailed("libsofthsm2.so is in none of \(places.joined(separator: ", "))")
            }
            return path
        }
    }
}
