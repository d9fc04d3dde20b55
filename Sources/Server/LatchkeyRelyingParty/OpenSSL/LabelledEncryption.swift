#if Certificates || Testing || Programs
    internal import COpenSSL
    internal import FoundationEssentials
    internal import SwiftASN1

    /// RSAES-OAEP with SHA-256 and a label (RFC 8017 section 7.1). Uses OpenSSL, because
    /// swift-crypto has no OAEP with a label, which TPMs require.
    enum LabelledEncryption {
        /// Encrypts a short text.
        ///
        /// - Parameters:
        ///   - modulus: Big-endian, without leading zeros.
        ///   - exponent: Big-endian, without leading zeros.
        /// - Returns: The ciphertext, as long as the modulus, or nil if OpenSSL refuses the key or
        ///   the length of the text.
        static func encrypt(
            _ text: [UInt8], modulus: Data, exponent: Data, label: String
        ) -> Data? {
            guard let key = key(modulus: modulus, exponent: exponent) else { return nil }
            defer { EVP_PKEY_free(key) }
            guard let context = EVP_PKEY_CTX_new_from_pkey(nil, key, nil) else {
                return nil
            }
            defer { EVP_PKEY_CTX_free(context) }
            let options = [
                ("rsa_padding_mode", "oaep"), ("rsa_oaep_md", "sha256"), ("rsa_mgf1_md", "sha256"),
                (
                    "rsa_oaep_label",
                    label.utf8.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
                ),
            ]
            guard EVP_PKEY_encrypt_init(context) == 1,
                options.allSatisfy({ EVP_PKEY_CTX_ctrl_str(context, $0.0, $0.1) == 1 })
            else { return nil }
            var result = [UInt8](repeating: 0, count: modulus.count)
            var count = result.count
            guard EVP_PKEY_encrypt(context, &result, &count, text, text.count) == 1,
                count == modulus.count
            else { return nil }
            return Data(result)
        }

        private static func key(modulus: Data, exponent: Data) -> OpaquePointer? {
            var serializer = DER.Serializer()
            do {
                // RSAPublicKey (RFC 8017 appendix A.1.1).
                try serializer.appendConstructedNode(identifier: .sequence) { serializer in
                    for number in [modulus, exponent] {
                        try serializer.serialize(Array(number)[...])
                    }
                }
            } catch {
                return nil
            }
            return serializer.serializedBytes.withUnsafeBufferPointer { buffer in
                var start = buffer.baseAddress
                return d2i_PublicKey(EVP_PKEY_RSA, nil, &start, buffer.count)
            }
        }
    }
#endif
