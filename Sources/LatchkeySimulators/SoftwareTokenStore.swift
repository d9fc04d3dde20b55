internal import FoundationEssentials
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
            try write(configurationText, to: configuration)
        } catch {
            throw .softwareTokenFailed("its directory can't be written", text: "\(error)")
        }
    }

    var environment: [String: String] { [Self.variable: configuration] }

    /// Where SoftHSM2 looks for the name of its configuration.
    static let variable = "SOFTHSM2_CONF"

    /// Writes the same configuration to another file.
    func writeConfiguration(to path: String) throws(KeystoreError) {
        do {
            try write(configurationText, to: path)
        } catch {
            throw .softwareTokenFailed("its configuration can't be written", text: "\(error)")
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
