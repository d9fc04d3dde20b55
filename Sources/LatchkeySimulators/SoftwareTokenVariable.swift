internal import FoundationEssentials
internal import Glibc
internal import Latchkey
internal import Synchronization

/// A variable of this process's environment that names the configuration of one token, while that is there.
///
/// All of them are set when the first is needed, since the environment must not grow while other threads read it. Each
/// names a file that is written when a token takes the variable.
final class SoftwareTokenVariable: Sendable {
    /// As long as `SOFTHSM2_CONF`.
    let name: String
    /// The file that it names.
    let path: String

    private let number: Int

    /// How many tokens there can be at a time.
    private static let count = 256

    /// - Throws: ``KeystoreError`` with code `unavailable` when all are taken.
    init() throws(KeystoreError) {
        let directory = try Self.preparedDirectory.get()
        guard let number = Self.free.withLock({ $0.popLast() }) else {
            throw .softwareTokenFailed("this process has \(Self.count) of them already")
        }
        self.number = number
        name = Self.name(number)
        path = directory.path(of: name)
    }

    deinit {
        let number = number
        Self.free.withLock { $0.append(number) }
    }

    private static let free = Mutex(Array((0..<count).reversed()))

    /// Holds the configurations; removed when the process ends.
    private static let directory = Result<TemporaryDirectory, KeystoreError> { () throws(KeystoreError) in
        try TemporaryDirectory()
    }

    /// The same, once the variables are set.
    private static let preparedDirectory = Result<TemporaryDirectory, KeystoreError> { () throws(KeystoreError) in
        let directory = try SoftwareTokenVariable.directory.get()
        for number in 0..<count { setenv(name(number), directory.path(of: name(number)), 1) }
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
