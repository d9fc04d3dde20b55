internal import COpenSSL

/// A 2048-bit RSA key. Uses OpenSSL, because swift-crypto has no private-key operation without
/// padding.
struct RSAKey: Sendable {
    /// High byte first, 256 bytes.
    let modulus: [UInt8]
    /// High byte first.
    let exponent: [UInt8]
    /// The private key in DER (RFC 8017 appendix A.1.2).
    private let encoding: [UInt8]

    /// Generates a key.
    ///
    /// - Throws: ``StatusWord/internalError`` if OpenSSL fails.
    static func generate() throws(StatusWord) -> RSAKey {
        var key: OpaquePointer?
        guard let context = EVP_PKEY_CTX_new_from_name(nil, "RSA", nil) else {
            throw .internalError
        }
        defer { EVP_PKEY_CTX_free(context) }
        guard
            EVP_PKEY_keygen_init(context) == 1,
            EVP_PKEY_CTX_ctrl_str(context, "rsa_keygen_bits", "2048") == 1,
            EVP_PKEY_generate(context, &key) == 1
        else { throw .internalError }
        defer { EVP_PKEY_free(key) }
        // RSAPublicKey: the modulus and the exponent (RFC 8017 appendix A.1.1).
        let sequence = try TLV.parse(bytes { i2d_PublicKey(key, $0) })
        let numbers = try TLV.parse(sequence[tag: 0x30] ?? []).map {
            Array($0.value.drop { $0 == 0 })
        }
        guard numbers.count == 2 else { throw .internalError }
        return RSAKey(
            modulus: numbers[0], exponent: numbers[1], encoding: bytes { i2d_PrivateKey(key, $0) })
    }

    /// Applies the private key without padding.
    ///
    /// - Parameter block: 256 bytes, padded by the host.
    /// - Throws: ``StatusWord/wrongLength`` for another length, ``StatusWord/internalError`` if
    ///   OpenSSL fails.
    func apply(to block: [UInt8]) throws(StatusWord) -> [UInt8] {
        guard block.count == modulus.count else { throw .wrongLength }
        let key = encoding.withUnsafeBufferPointer { buffer in
            var start = buffer.baseAddress
            return d2i_AutoPrivateKey(nil, &start, buffer.count)
        }
        guard let key else { throw .internalError }
        defer { EVP_PKEY_free(key) }
        guard let context = EVP_PKEY_CTX_new_from_pkey(nil, key, nil) else { throw .internalError }
        defer { EVP_PKEY_CTX_free(context) }
        var result = [UInt8](repeating: 0, count: modulus.count)
        var count = result.count
        guard
            EVP_PKEY_sign_init(context) == 1,
            EVP_PKEY_CTX_ctrl_str(context, "rsa_padding_mode", "none") == 1,
            EVP_PKEY_sign(context, &result, &count, block, block.count) == 1
        else { throw .internalError }
        return Array(result.prefix(count))
    }

    /// Encodes with a function `i2d_…`: the first call returns the length, the second one writes.
    private static func bytes(
        _ encode: (UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>?) -> Int32
    ) -> [UInt8] {
        var result = [UInt8](repeating: 0, count: max(0, Int(encode(nil))))
        result.withUnsafeMutableBufferPointer { buffer in
            var start = buffer.baseAddress
            _ = encode(&start)
        }
        return result
    }
}
