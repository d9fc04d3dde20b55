#if Certificates || Testing || Programs
    internal import CLibCrypto
    internal import FoundationEssentials
    internal import Glibc
    internal import SwiftASN1

    /// RSAES-OAEP with SHA-256 and a label (RFC 8017 section 7.1). Uses OpenSSL, because
    /// swift-crypto has no OAEP with a label, which TPMs require.
    enum LabelledEncryption {
        private static let loaded = Result { () throws(AttestationError) in
            var functions = latchkey_libcrypto()
            guard latchkey_libcrypto_load(&functions) else {
                let cause = dlerror().map { String(cString: $0) } ?? "the loader reports no cause"
                throw AttestationError(
                    .unavailable,
                    "libcrypto.so.3 or a function in it cannot be loaded: \(cause); install OpenSSL 3 (libssl3)"
                )
            }
            return functions
        }

        /// Encrypts a short text.
        ///
        /// - Parameters:
        ///   - modulus: Big-endian, without leading zeros.
        ///   - exponent: Big-endian, without leading zeros.
        /// - Returns: The ciphertext, as long as the modulus, or nil if OpenSSL refuses the key or
        ///   the length of the text.
        /// - Throws: ``AttestationError`` with code `unavailable` if libcrypto cannot be loaded.
        static func encrypt(
            _ text: [UInt8], modulus: Data, exponent: Data, label: String
        ) throws(AttestationError) -> Data? {
            let libcrypto = try loaded.get()
            guard let key = key(modulus: modulus, exponent: exponent, libcrypto) else { return nil }
            defer { libcrypto.EVP_PKEY_free(key) }
            guard let context = libcrypto.EVP_PKEY_CTX_new_from_pkey(nil, key, nil) else {
                return nil
            }
            defer { libcrypto.EVP_PKEY_CTX_free(context) }
            let options = [
                ("rsa_padding_mode", "oaep"), ("rsa_oaep_md", "sha256"), ("rsa_mgf1_md", "sha256"),
                (
                    "rsa_oaep_label",
                    label.utf8.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
                ),
            ]
            guard libcrypto.EVP_PKEY_encrypt_init(context) == 1,
                options.allSatisfy({ libcrypto.EVP_PKEY_CTX_ctrl_str(context, $0.0, $0.1) == 1 })
            else { return nil }
            var result = [UInt8](repeating: 0, count: modulus.count)
            var count = result.count
            guard libcrypto.EVP_PKEY_encrypt(context, &result, &count, text, text.count) == 1,
                count == modulus.count
            else { return nil }
            return Data(result)
        }

        private static func key(modulus: Data, exponent: Data, _ libcrypto: latchkey_libcrypto)
            -> OpaquePointer?
        {
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
                return libcrypto.d2i_PublicKey(EVP_PKEY_RSA, nil, &start, buffer.count)
            }
        }
    }
#endif
