internal import CEnvironment
internal import FoundationEssentials
internal import Glibc
internal import Latchkey
internal import Synchronization

/// A variable of this process's environment that names the configuration of one token, while that is there.
///
/// It stays when the token is gone, and the next token takes it. It names a file that is written when a token takes it.
final class SoftwareTokenVariable: Sendable {
    /// As long as `SOFTHSM2_CONF`.
    let name: String
    /// The file that it names.
    let path: String

    private let number: Int

    /// - Throws: ``KeystoreError`` with code `unavailable` when there are too many or no memory.
    init() throws(KeystoreError) {
        let directory = try Self.directory.get()
        number = try Self.pool.withLock { (pool) throws(KeystoreError) in
            if let free = pool.free.popLast() { return free }
            // Inherited from a process that has tokens of its own.
            while getenv(Self.name(pool.count)) != nil { pool.count += 1 }
            // A name has four digits.
            guard pool.count < 10_000 else { throw .softwareTokenFailed("this process has 10000 of them already") }
            let name = Self.name(pool.count)
            guard let entry = strdup("\(name)=\(directory.path(of: name))"),
                latchkey_environment_change(entry, nil) != 0
            else { throw .softwareTokenFailed("there is no memory for its variable") }
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

    /// The variables that were set, and those among them that no token has.
    private static let pool = Mutex<(count: Int, free: [Int])>((0, []))

    /// Holds the configurations; removed when the process ends.
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
