import COpenSSL
import FoundationEssentials

/// Code that uses OpenSSL and does not know tokens.
enum OpenSSLUser {
    struct Failure: Error {
        let function: String
    }

    /// `EVP_DigestSign` over SHA-256 of the message: DER.
    static func sign(_ message: [UInt8], with key: OpaquePointer) throws -> Data {
        let context = EVP_MD_CTX_new()
        defer { EVP_MD_CTX_free(context) }
        guard EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key) == 1 else {
            throw Failure(function: "EVP_DigestSignInit")
        }
        var count = 0
        guard EVP_DigestSign(context, nil, &count, message, message.count) == 1 else {
            throw Failure(function: "EVP_DigestSign (length)")
        }
        var signature = [UInt8](repeating: 0, count: count)
        guard EVP_DigestSign(context, &signature, &count, message, message.count) == 1 else {
            throw Failure(function: "EVP_DigestSign")
        }
        return Data(signature.prefix(count))
    }
}
