internal import Crypto
internal import CryptoExtras
internal import FoundationEssentials
package import Latchkey

/// A keyring's secret, encrypted with a key that scrypt (RFC 7914) derives from the login password.
///
/// Both calls take about a quarter of a second and 64 MiB, and block: use one at a time.
package struct PasswordWrap: Hashable, Sendable {
    /// What the ciphertext is bound to: another user's copy, an earlier one or one of another kind
    /// does not open.
    package struct Binding: Hashable, Sendable {
        let user: UInt32
        let generation: UInt64
        let kind: KeyringKind

        package init(user: UInt32, generation: UInt64, kind: KeyringKind) {
            (self.user, self.generation, self.kind) = (user, generation, kind)
        }

        var data: Data {
            var bytes = Data("latchkey login wrap 1".utf8)
            withUnsafeBytes(of: user.bigEndian) { bytes.append(contentsOf: $0) }
            withUnsafeBytes(of: generation.bigEndian) { bytes.append(contentsOf: $0) }
            bytes.append(kind.rawValue)
            return bytes
        }
    }

    static let saltLength = 16
    /// The nonce and the tag of AES-GCM.
    static let overhead = 12 + 16
    /// N = 2^16 of each new copy.
    static let standardLogRounds = 16
    /// More would need more memory than the service has; fewer are for tests.
    private static let acceptedLogRounds = 4...standardLogRounds
    private static let blockSize = 8

    /// The binary logarithm of scrypt's N. r is 8, p is 1.
    let logRounds: Int
    let salt: Data
    /// Nonce, ciphertext and tag.
    let box: Data

    /// Encrypts a secret.
    ///
    /// - Throws: `CommonError`: `invalidInput` for an empty password or secret.
    package init(_ secret: SecretBytes, password: SecretBytes, binding: Binding)
        throws(CommonError)
    {
        var salt = Data(count: Self.saltLength)
        var generator = SystemRandomNumberGenerator()
        for index in salt.indices { salt[index] = .random(in: .min ... .max, using: &generator) }
        try self.init(
            secret, password: password, binding: binding, logRounds: Self.standardLogRounds,
            salt: salt)
    }

    /// - Parameter nonce: For test vectors; nil for a random one.
    init(
        _ secret: SecretBytes, password: SecretBytes, binding: Binding, logRounds: Int,
        salt: Data, nonce: Data? = nil
    ) throws(CommonError) {
        guard !secret.isEmpty else { throw .invalidInput("the secret is empty") }
        let key = try Self.key(password, salt, logRounds)
        do {
            let nonce = try nonce.map { try AES.GCM.Nonce(data: $0) } ?? AES.GCM.Nonce()
            let box = try secret.withUnsafeBytes {
                try AES.GCM.seal($0, using: key, nonce: nonce, authenticating: binding.data)
            }
            (self.logRounds, self.salt) = (logRounds, salt)
            self.box = Data(box.nonce) + box.ciphertext + box.tag
        } catch {
            throw Self.failed(error)
        }
    }

    /// Reads a stored copy.
    ///
    /// - Returns: nil if a length is wrong, or the work too much.
    init?(logRounds: Int, salt: Data, box: Data, kind: KeyringKind) {
        guard Self.acceptedLogRounds.contains(logRounds), salt.count == Self.saltLength,
            box.count == Self.overhead + kind.secretLength
        else { return nil }
        (self.logRounds, self.salt, self.box) = (logRounds, salt, box)
    }

    /// The secret.
    ///
    /// - Returns: nil if the password or the binding is another one, or the bytes were changed.
    /// - Throws: `CommonError`: `invalidInput` for an empty password, `failed` without memory.
    package func open(password: SecretBytes, binding: Binding) throws(CommonError) -> SecretBytes? {
        let key = try Self.key(password, salt, logRounds)
        guard let box = try? AES.GCM.SealedBox(combined: box),
            var plain = try? AES.GCM.open(box, using: key, authenticating: binding.data)
        else { return nil }
        defer { plain.resetBytes(in: plain.startIndex..<plain.endIndex) }
        return SecretBytes(plain)
    }

    private static func key(_ password: SecretBytes, _ salt: Data, _ logRounds: Int)
        throws(CommonError) -> SymmetricKey
    {
        guard !password.isEmpty else { throw .invalidInput("the password is empty") }
        do {
            var copy = password.withUnsafeBytes { Data($0) }
            defer { copy.resetBytes(in: copy.startIndex..<copy.endIndex) }
            return try KDF.Scrypt.deriveKey(
                from: copy, salt: salt, outputByteCount: 32, rounds: 1 << logRounds,
                blockSize: blockSize, parallelism: 1,
                maxMemory: 2 * 128 * blockSize << logRounds)
        } catch {
            throw failed(error)
        }
    }

    private static func failed(_ error: any Error) -> CommonError {
        CommonError(
            code: .failed, reason: "the secret cannot be encrypted: \(error)",
            recovery: "Free memory, then try again.")
    }
}
