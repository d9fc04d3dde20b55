import Crypto
import CryptoExtras
import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty

/// A password's scrypt hash (RFC 7914) in the PHC text form: `$scrypt$ln=15,r=8,p=3$salt$hash`.
struct PasswordHash: Hashable, Sendable, CustomStringConvertible {
    /// How much work one guess costs: memory is 128 · 2^logRounds · blockSize bytes.
    struct Cost: Hashable, Sendable {
        var logRounds: Int
        var blockSize: Int
        var parallelism: Int

        /// 32 MiB, three times over (OWASP password storage cheat sheet).
        static let standard = Cost(logRounds: 15, blockSize: 8, parallelism: 3)
        /// 4 MiB: for passwords that are printed anyway, so that a demonstration starts at once.
        static let demonstration = Cost(logRounds: 12, blockSize: 8, parallelism: 1)
    }

    static let saltLength = 16
    static let hashLength = 32

    private let cost: Cost
    private let salt: Data
    private let hash: Data

    /// Hashes a password. Takes long on purpose: call it through a ``PasswordHasher``.
    init(_ password: String, salt: some Collection<UInt8>, cost: Cost) throws {
        self.cost = cost
        self.salt = Data(salt)
        hash = try Self.derive(password, salt: self.salt, cost: cost)
    }

    /// The hash of no password that anybody knows: checking against it costs as much as against a real one.
    init(decoyOf cost: Cost, random: RandomSource) {
        self.cost = cost
        salt = Data(random.bytes(Self.saltLength))
        hash = Data(random.bytes(Self.hashLength))
    }

    /// Reads the text form.
    init?(_ text: String) {
        let parts = text.split(separator: "$", omittingEmptySubsequences: false)
        guard parts.count == 5, parts[0].isEmpty, parts[1] == "scrypt" else { return nil }
        let numbers = parts[2].split(separator: ",").compactMap { Int($0.drop { $0 != "=" }.dropFirst()) }
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
            from: Data(password.utf8), salt: salt, outputByteCount: hashLength, rounds: 1 << cost.logRounds,
            blockSize: cost.blockSize, parallelism: cost.parallelism, maxMemory: 2 * memory + (1 << 20)
        ).withUnsafeBytes { Data($0) }
    }
}
