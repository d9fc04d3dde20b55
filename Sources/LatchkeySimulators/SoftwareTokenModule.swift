internal import FoundationEssentials
internal import Glibc
internal import Latchkey
internal import Synchronization

/// A copy of SoftHSM2's module, which the dynamic loader takes for a library of its own.
struct SoftwareTokenModule {
    let path: String

    /// Copies the installed module.
    init(copiedTo directory: TemporaryDirectory) throws(KeystoreError) {
        path = directory.path(of: "libsofthsm2.so")
        do {
            // What is installed may be a symbolic link, which would be copied as one.
            let original = try URL(filePath: Self.installed).resolvingSymlinksInPath()
            try FileManager.default.copyItem(atPath: original.path, toPath: path)
        } catch {
            throw (error as? KeystoreError) ?? .softwareTokenFailed("its module can't be copied", text: "\(error)")
        }
    }

    /// Loads the copy and has it read the store, which it does once. It is never finalised or unloaded: whoever uses it
    /// may do so until the process ends.
    func initialize(for store: SoftwareTokenStore) throws(KeystoreError) {
        let configuration = try Self.configuration.get()
        try configuration.withLock { (file) throws(KeystoreError) in
            try store.writeConfiguration(to: file)
            guard let library = dlopen(path, RTLD_NOW | RTLD_LOCAL), let symbol = dlsym(library, "C_Initialize") else {
                throw .softwareTokenFailed("its module can't be loaded", text: String(cString: dlerror()))
            }
            // CK_C_INITIALIZE_ARGS (PKCS#11 2.40 section 5.4): four functions, flags (CKF_OS_LOCKING_OK), reserved.
            var arguments: [UInt] = [0, 0, 0, 0, 2, 0]
            let initialize = unsafeBitCast(symbol, to: Initialize.self)
            let value = initialize(&arguments)
            guard value == 0 else {
                throw .softwareTokenFailed("its module answered 0x\(String(value, radix: 16)) to C_Initialize")
            }
        }
    }

    private typealias Initialize = @convention(c) (UnsafeMutableRawPointer?) -> UInt

    /// The file that `SOFTHSM2_CONF` of this process names. It says something else for each module that is initialised,
    /// one at a time. It is removed when the process ends.
    private static let configuration = Result<ConfigurationFile, KeystoreError> { () throws(KeystoreError) in
        try ConfigurationFile()
    }

    private final class ConfigurationFile: Sendable {
        private let directory: TemporaryDirectory
        private let path: Mutex<String>

        init() throws(KeystoreError) {
            directory = try TemporaryDirectory()
            let path = directory.path(of: "softhsm2.conf")
            self.path = Mutex(path)
            setenv(SoftwareTokenStore.variable, path, 1)
            atexit {
                guard let file = try? SoftwareTokenModule.configuration.get() else { return }
                try? FileManager.default.removeItem(atPath: file.directory.path)
            }
        }

        func withLock(_ body: (String) throws(KeystoreError) -> Void) throws(KeystoreError) {
            try path.withLock { (path) throws(KeystoreError) in try body(path) }
        }
    }

    /// Where distributions put SoftHSM2.
    private static let places = [
        "/usr/lib/softhsm/libsofthsm2.so", "/usr/lib64/softhsm/libsofthsm2.so", "/usr/lib64/pkcs11/libsofthsm2.so",
        "/usr/local/lib/softhsm/libsofthsm2.so",
    ]

    /// The module that the system has.
    static var installed: String {
        get throws(KeystoreError) {
            guard let path = places.first(where: { FileManager.default.fileExists(atPath: $0) }) else {
                throw .softwareTokenFailed("libsofthsm2.so is in none of \(places.joined(separator: ", "))")
            }
            return path
        }
    }
}
