import Crypto
import CryptoExtras
import FoundationEssentials
import Latchkey
import LatchkeyPlatform
import Synchronization

/// Hashes and checks passwords one at a time on a thread. Event loops and the cooperative pool do
/// not block, and at most one hash's memory is in use.
final class PasswordHasher: Sendable {
    /// The maximum number of passwords that wait for their check.
    static let maximumWaiting = 8
    /// Seconds after which a client can repeat a refused check.
    static let retryAfter = 5

    private let thread = BlockingThread()
    private let waiting = Atomic(0)
    private let cost: PasswordHash.Cost
    /// The hash that an unknown user's password is compared with, so that the answer takes the same
    /// time.
    private let decoy: PasswordHash

    init(cost: PasswordHash.Cost = .standard) {
        self.cost = cost
        decoy = PasswordHash(decoyOf: cost)
    }

    /// The text to store for a new password.
    func hash(_ password: String) async throws -> String {
        try await thread.run { [cost] in try PasswordHash(password, cost: cost).description }
    }

    /// Whether `password` matches the stored hash. Without a stored hash, returns false after the
    /// same time.
    ///
    /// - Throws: ``Busy``
    func matches(_ password: String, stored: String?) async throws -> Bool {
        defer { waiting.subtract(1, ordering: .relaxed) }
        guard waiting.add(1, ordering: .relaxed).newValue <= Self.maximumWaiting else {
            throw Busy()
        }
        let known = stored.flatMap(PasswordHash.init)
        return try await thread.run { [decoy] in
            try (known ?? decoy).matches(password) && known != nil
        }
    }

    /// ``maximumWaiting`` passwords wait already.
    struct Busy: Error {}
}

/// A password's scrypt hash (RFC 7914) in the PHC text form: `$scrypt$ln=15,r=8,p=3$salt$hash`.
struct PasswordHash: Hashable, Sendable, CustomStringConvertible {
    /// The work of one guess: memory is 128 · 2^logRounds · blockSize bytes.
    struct Cost: Hashable, Sendable {
        var logRounds: Int
        var blockSize: Int
        var parallelism: Int

        /// 32 MiB, three passes (OWASP password storage cheat sheet).
        static let standard = Cost(logRounds: 15, blockSize: 8, parallelism: 3)
        /// 64 KiB: for demonstration passwords, which are printed, so that the server starts
        /// quickly.
        static let demonstration = Cost(logRounds: 6, blockSize: 8, parallelism: 1)
    }

    static let saltLength = 16
    static let hashLength = 32

    private let cost: Cost
    private let salt: Data
    private let hash: Data

    /// Hashes a password. Slow by design: call it through a ``PasswordHasher``.
    init(_ password: String, cost: Cost) throws {
        self.cost = cost
        salt = .random(Self.saltLength)
        hash = try Self.derive(password, salt: salt, cost: cost)
    }

    /// A random hash that no password matches. Checking against it costs the same as checking
    /// against a real one.
    init(decoyOf cost: Cost) {
        self.cost = cost
        salt = .random(Self.saltLength)
        hash = .random(Self.hashLength)
    }

    /// Reads the text form.
    init?(_ text: String) {
        let parts = text.split(separator: "$", omittingEmptySubsequences: false)
        guard parts.count == 5, parts[0].isEmpty, parts[1] == "scrypt" else { return nil }
        let numbers = parts[2].split(separator: ",").compactMap {
            Int($0.drop { $0 != "=" }.dropFirst())
        }
        guard numbers.count == 3, (1...20).contains(numbers[0]), (1...32).contains(numbers[1]),
            (1...16).contains(numbers[2]),
            let salt = Base64URL.decode(parts[3]), let hash = Base64URL.decode(parts[4]),
            salt.count == Self.saltLength, hash.count == Self.hashLength
        else { return nil }
        cost = Cost(logRounds: numbers[0], blockSize: numbers[1], parallelism: numbers[2])
        self.salt = salt
        self.hash = hash
    }

    /// Whether this is the hash of `password`, compared in constant time.
    func matches(_ password: String) throws -> Bool {
        constantTimeEqual(try Self.derive(password, salt: salt, cost: cost), hash)
    }

    var description: String {
        "$scrypt$ln=\(cost.logRounds),r=\(cost.blockSize),p=\(cost.parallelism)"
            + "$\(Base64URL.encode(salt))$\(Base64URL.encode(hash))"
    }

    private static func derive(_ password: String, salt: Data, cost: Cost) throws -> Data {
        let memory = 128 * (1 << cost.logRounds) * cost.blockSize
        return try KDF.Scrypt.deriveKey(
            from: Data(password.utf8), salt: salt, outputByteCount: hashLength,
            rounds: 1 << cost.logRounds,
            blockSize: cost.blockSize, parallelism: cost.parallelism,
            maxMemory: 2 * memory + (1 << 20)
        ).withUnsafeBytes { Data($0) }
    }
}
