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
    private let logRounds: Int
    /// The hash that an unknown user's password is compared with, so that the answer takes the same
    /// time.
    private let decoy: PasswordHash

    init(logRounds: Int = PasswordHash.standard) {
        self.logRounds = logRounds
        decoy = PasswordHash(decoyOf: logRounds)
    }

    /// The text to store for a new password.
    func hash(_ password: String) async throws -> String {
        try await thread.run { [logRounds] in
            try PasswordHash(password, logRounds: logRounds).description
        }
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

/// A password's scrypt hash (RFC 7914). Its text form is `logRounds$salt$hash`, the last two in
/// base64url.
struct PasswordHash: Hashable, Sendable, CustomStringConvertible {
    /// 32 MiB, three passes (OWASP password storage cheat sheet).
    static let standard = 15
    /// 64 KiB: for demonstration passwords, which are printed, so that the server starts quickly.
    static let demonstration = 6
    private static let blockSize = 8
    private static let saltLength = 16
    private static let hashLength = 32

    /// The work of one guess: memory is 2^logRounds KiB.
    private let logRounds: Int
    private let salt: Data
    private let hash: Data

    /// Hashes a password. Slow by design: call it through a ``PasswordHasher``.
    init(_ password: String, logRounds: Int) throws {
        self.logRounds = logRounds
        salt = .random(Self.saltLength)
        hash = try Self.derive(password, salt, logRounds)
    }

    /// A random hash that no password matches. Checking against it costs the same as checking
    /// against a real one.
    init(decoyOf logRounds: Int) {
        self.logRounds = logRounds
        (salt, hash) = (.random(Self.saltLength), .random(Self.hashLength))
    }

    /// Reads the text form.
    init?(_ text: String) {
        let parts = text.split(separator: "$", omittingEmptySubsequences: false)
        guard parts.count == 3, let logRounds = Int(parts[0]), (1...20).contains(logRounds),
            let salt = Base64URL.decode(parts[1]), let hash = Base64URL.decode(parts[2]),
            salt.count == Self.saltLength, hash.count == Self.hashLength
        else { return nil }
        (self.logRounds, self.salt, self.hash) = (logRounds, salt, hash)
    }

    /// Whether this is the hash of `password`, compared in constant time.
    func matches(_ password: String) throws -> Bool {
        constantTimeEqual(try Self.derive(password, salt, logRounds), hash)
    }

    var description: String {
        "\(logRounds)$\(Base64URL.encode(salt))$\(Base64URL.encode(hash))"
    }

    private static func derive(_ password: String, _ salt: Data, _ logRounds: Int) throws -> Data {
        let memory = 128 * (1 << logRounds) * blockSize
        return try KDF.Scrypt.deriveKey(
            from: Data(password.utf8), salt: salt, outputByteCount: hashLength,
            rounds: 1 << logRounds, blockSize: blockSize, parallelism: 3,
            maxMemory: 2 * memory + (1 << 20)
        ).withUnsafeBytes { Data($0) }
    }
}
