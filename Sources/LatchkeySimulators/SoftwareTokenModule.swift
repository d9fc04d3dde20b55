internal import FoundationEssentials
internal import Latchkey

/// A copy of SoftHSM2's module for one token.
///
/// The dynamic loader takes it for a library of its own. In it the name of the variable that names the configuration,
/// `SOFTHSM2_CONF`, is another one of the same length: so one process can have many tokens that know nothing of each
/// other, and a module that is finalised and initialised again, or runs in a child process, still finds its own.
struct SoftwareTokenModule {
    let path: String

    /// Copies the installed module and has it read the variable `name`, which has as many bytes.
    init(copiedTo path: String, readingVariable name: String) throws(KeystoreError) {
        self.path = path
        let installed = try Self.installed
        do {
            var bytes = [UInt8](try Data(contentsOf: URL(filePath: installed)))
            guard let place = bytes.firstRange(of: Array(SoftwareTokenStore.variable.utf8)),
                place.count == name.utf8.count
            else { throw KeystoreError.softwareTokenFailed("\(installed) does not read SOFTHSM2_CONF") }
            bytes.replaceSubrange(place, with: name.utf8)
            try Data(bytes).write(to: URL(filePath: path))
        } catch {
            throw (error as? KeystoreError) ?? .softwareTokenFailed("its module can't be copied", text: "\(error)")
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
