internal import FoundationEssentials
internal import Glibc
internal import Latchkey
internal import LatchkeyPlatform
internal import Synchronization

/// A token directory of SoftHSM2 with its configuration file.
struct SoftwareTokenStore: Sendable {
    /// The variable with the path of the configuration file.
    static let variable = "SOFTHSM2_CONF"

    private let configuration: String
    private let configurationText: String

    /// Creates the token directory and writes the configuration.
    init(directory: String) throws(KeystoreError) {
        let tokens = "\(directory)/tokens"
        configuration = "\(directory)/softhsm2.conf"
        configurationText = """
            directories.tokendir = \(tokens)
            objectstore.backend = file
            log.level = ERROR
            slots.removable = false

            """
        do {
            try FileManager.default.createDirectory(
                atPath: tokens, withIntermediateDirectories: false,
                attributes: [.posixPermissions: 0o700])
        } catch {
            throw .failed(.token, "its directory cannot be created", text: "\(error)")
        }
        try writeConfiguration(to: configuration)
    }

    var environment: [String: String] { [Self.variable: configuration] }

    /// Writes the same configuration to another file.
    func writeConfiguration(to path: String) throws(KeystoreError) {
        do {
            try Data(configurationText.utf8).write(to: URL(filePath: path))
        } catch {
            throw .failed(.token, "its configuration cannot be written", text: "\(error)")
        }
    }

    /// Creates a token with `softhsm2-util`. The PINs of a simulator are not secret, so they may be
    /// in its arguments.
    ///
    /// - Returns: The new token's serial number.
    func makeToken(label: String, userPIN: String, securityOfficerPIN: String)
        async throws(KeystoreError) -> String
    {
        _ = try await run(
            "--init-token", "--free", "--label", label, "--pin", userPIN, "--so-pin",
            securityOfficerPIN)
        let listing = try await run("--show-slots")
        // The first listed slot contains the token; the last one is always free.
        let name = "Serial number:"
        for line in listing.split(separator: "\n") {
            let words = line.drop { $0 == " " }
            guard words.hasPrefix(name) else { continue }
            let serial = words.dropFirst(name.count).filter { $0 != " " }
            if !serial.isEmpty { return String(serial) }
        }
        throw .failed(.token, "softhsm2-util shows no serial number", text: listing)
    }

    private func run(_ arguments: String...) async throws(KeystoreError) -> String {
        let result = try await HelperProgram.run(
            "softhsm2-util", arguments, environment: environment)
        guard result.isSuccess else {
            throw .failed(.token, "softhsm2-util failed", text: result.text)
        }
        return result.text
    }
}

/// An environment variable of this process with the path of one token's configuration file.
///
/// When the token is released, the variable stays set, and the next token reuses it and writes the
/// file again.
final class SoftwareTokenVariable: Sendable {
    /// The name, as long as `SOFTHSM2_CONF`.
    let name: String
    /// The path of the configuration file.
    let path: String

    private let number: Int

    /// - Throws: ``KeystoreError`` with code `unavailable` if all names are used or memory is
    ///   exhausted.
    init() throws(KeystoreError) {
        let directory = try Self.directory.get()
        number = try Self.pool.withLock { (pool) throws(KeystoreError) in
            if let free = pool.free.popLast() { return free }
            // Skip names that a parent process with tokens has set.
            while getenv(Self.name(pool.count)) != nil { pool.count += 1 }
            // Names have four digits.
            guard pool.count < 10_000 else {
                throw .failed(.token, "this process already has 10000 tokens")
            }
            let name = Self.name(pool.count)
            guard EnvironmentVariable(setting: "\(name)=\(directory.path(of: name))") != nil else {
                throw .failed(.token, "its environment variable could not be allocated")
            }
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
    private static let directory: Result<TemporaryDirectory, KeystoreError> = Result {
        () throws(KeystoreError) in
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
