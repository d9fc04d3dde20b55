internal import COpenSSL

/// Encrypts one block with Triple DES or AES. Uses OpenSSL, because swift-crypto has no Triple DES.
enum BlockCipher {
    /// - Parameters:
    ///   - block: One block of the algorithm.
    ///   - key: A key of the algorithm's length.
    /// - Returns: nil if OpenSSL refuses, for example because Triple DES is disabled on this
    ///   machine.
    static func encrypt(_ block: [UInt8], key: [UInt8], algorithm: ManagementKeyAlgorithm)
        -> [UInt8]?
    {
        guard let context = EVP_CIPHER_CTX_new() else { return nil }
        defer { EVP_CIPHER_CTX_free(context) }
        guard
            EVP_EncryptInit_ex(context, cipher(algorithm), nil, key, nil) == 1,
            EVP_CIPHER_CTX_set_padding(context, 0) == 1
        else { return nil }
        // EVP_EncryptUpdate can write one block more than its input (EVP_EncryptInit(3)).
        var output = [UInt8](repeating: 0, count: 2 * block.count)
        var count: Int32 = 0
        guard
            EVP_EncryptUpdate(context, &output, &count, block, Int32(block.count)) == 1,
            Int(count) == block.count
        else { return nil }
        return Array(output.prefix(block.count))
    }

    private static func cipher(_ algorithm: ManagementKeyAlgorithm) -> OpaquePointer? {
        switch algorithm {
        case .tripleDES: EVP_des_ede3_ecb()
        case .aes128: EVP_aes_128_ecb()
        case .aes192: EVP_aes_192_ecb()
        case .aes256: EVP_aes_256_ecb()
        }
    }
}
