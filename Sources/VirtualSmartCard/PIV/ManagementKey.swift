/// The key of whoever administers the card.
struct ManagementKey: Hashable {
    let algorithm: ManagementKeyAlgorithm
    let bytes: [UInt8]

    /// - Returns: nil when the length is not that of the algorithm.
    init?(_ algorithm: ManagementKeyAlgorithm, bytes: [UInt8]) {
        guard bytes.count == algorithm.keyLength else { return nil }
        self.algorithm = algorithm
        self.bytes = bytes
    }

    /// The key that every YubiKey leaves the factory with: 01 02 … 08, over and over.
    init(factory algorithm: ManagementKeyAlgorithm) {
        self.algorithm = algorithm
        bytes = (0..<algorithm.keyLength).map { UInt8($0 % 8 + 1) }
    }

    var isDefault: Bool { self == ManagementKey(factory: algorithm) }

    /// Encrypts one block.
    func encrypt(_ block: [UInt8]) throws(StatusWord) -> [UInt8] {
        guard
            block.count == algorithm.blockLength,
            let result = BlockCipher.encrypt(block, key: bytes, algorithm: algorithm)
        else { throw .incorrectData }
        return result
    }
}
