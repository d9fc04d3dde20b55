internal import CEnvironment
internal import FoundationEssentials
internal import Glibc
internal import Latchkey
internal import Synchronization

/// A token directory of SoftHSM2 with its configuration file.
struct SoftwareTokenStore: Sendable {
    let directory: String

    /// Creates the token directory and writes the configuration.
    init(directory: String) throws(KeystoreError) {
        self.directory = directory
        do {
            try FileManager.default.createDirectory(
                atPath: tokens, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
            try write(configurationText, to: configuration)
        } catch {
            throw .softwareTokenFailed("its directory cannot be written", text: "\(error)")
        }
    }

    var environment: [String: String] { [Self.variable: configuration] }

    /// The variable with the path of the configuration file.
    static let variable = "SOFTHSM2_CONF"

    /// Writes the same configuration to another file.
    func writeConfiguration(to path: String) throws(KeystoreError) {
        do {
            try write(configurationText, to: path)
        } catch {
            throw .softwareTokenFailed("its configuration cannot be written", text: "\(error)")
        }
    }

    private var tokens: String { "\(directory)/tokens" }
    private var configuration: String { "\(directory)/softhsm2.conf" }

    private var configurationText: String {
        """
        directories.tokendir = \(tokens)
        objectstore.backend = file
        log.level = ERROR
        slots.removable = false

        """
    }

    private func write(_ text: String, to path: String) throws {
        try Data(text.utf8).write(to: URL(filePath: path))
    }
}

/// Creates tokens with `softhsm2-util`. The PINs of a simulator are not secret, so they may be in its arguments.
struct SoftwareTokenProvisioner {
    let store: SoftwareTokenStore

    /// - Returns: The new token's serial number.
    func makeToken(
        label: String, userPIN: String, securityOfficerPIN: String
    ) async throws(KeystoreError) -> String {
        _ = try await run([
            "--init-token", "--free", "--label", label, "--pin", userPIN, "--so-pin", securityOfficerPIN,
        ])
        return try serial(ofFirstTokenIn: try await run(["--show-slots"]))
    }

    /// The first listed slot contains the token; the last one is always free.
    private func serial(ofFirstTokenIn listing: String) throws(KeystoreError) -> String {
        let name = "Serial number:"
        for line in listing.split(separator: "\n") {
            let words = line.drop { $0 == " " }
            guard words.hasPrefix(name) else { continue }
            let serial = words.dropFirst(name.count).filter { $0 != " " }
            if !serial.isEmpty { return String(serial) }
        }
        throw .softwareTokenFailed("softhsm2-util shows no serial number", text: listing)
    }

    private func run(_ arguments: [String]) async throws(KeystoreError) -> String {
        let result = try await HelperProgram.run(
            "softhsm2-util", arguments, environment: store.environment, within: .seconds(60))
        guard result.isSuccess else { throw .softwareTokenFailed("softhsm2-util failed", text: result.text) }
        return result.text
    }
}

/// An environment variable of this process with the path of one token's configuration file.
///
/// When the token is released, the variable stays set, and the next token reuses it and writes the file again.
final class SoftwareTokenVariable: Sendable {
    /// The name, as long as `SOFTHSM2_CONF`.
    let name: String
    /// The path of the configuration file.
    let path: String

    private let number: Int

    /// - Throws: ``KeystoreError`` with code `unavailable` if all names are used or memory is exhausted.
    init() throws(KeystoreError) {
        let directory = try Self.directory.get()
        number = try Self.pool.withLock { (pool) throws(KeystoreError) in
            if let free = pool.free.popLast() { return free }
            // Skip names that a parent process with tokens has set.
            while getenv(Self.name(pool.count)) != nil { pool.count += 1 }
            // Names have four digits.
            guard pool.count < 10_000 else { throw .softwareTokenFailed("this process already has 10000 tokens") }
            let name = Self.name(pool.count)
            guard let entry = strdup("\(name)=\(directory.path(of: name))"),
                latchkey_environment_change(entry, nil) != 0
            else { throw .softwareTokenFailed("its environment variable could not be allocated") }
            defer { pool.count += 1 }
            return pool.count
        }
        name = Self.name(number)
        path = directory.path(of: name)
    }

    deinit {
        let number = number
        Self.pool.withLock { $0.free.append(number) }
    }

    /// The number of variables set, and the numbers of those that no token uses.
    private static let pool = Mutex<(count: Int, free: [Int])>((0, []))

    /// The directory of the configuration files, removed at the exit of the process.
    private static let directory: Result<TemporaryDirectory, KeystoreError> = Result { () throws(KeystoreError) in
        let directory = try TemporaryDirectory()
        atexit {
            guard let directory = try? SoftwareTokenVariable.directory.get() else { return }
            try? FileManager.default.removeItem(atPath: directory.path)
        }
        return directory
    }

    private static func name(_ number: Int) -> String {
        let digits = String(number)
        return "SOFTHSM2_" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
    }
}
