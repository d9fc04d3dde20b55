internal import CLibP11
internal import FoundationEssentials
internal import Latchkey

/// One token in a ``LibP11Context``, and what libp11 is used for on it.
struct LibP11Token {
    /// By what a token is known; slot numbers change.
    struct Identity: Hashable {
        let manufacturer: String
        let model: String
        let serial: String
        let label: String
    }

    let context: LibP11Context
    let slot: UnsafeMutablePointer<PKCS11_SLOT>
    let token: UnsafeMutablePointer<PKCS11_TOKEN>

    var identity: Identity {
        Identity(
            manufacturer: Self.text(token.pointee.manufacturer), model: Self.text(token.pointee.model),
            serial: Self.text(token.pointee.serialnr), label: Self.text(token.pointee.label))
    }

    var isInitialized: Bool { token.pointee.initialized != 0 }

    private static func text(_ pointer: UnsafeMutablePointer<CChar>?) -> String {
        pointer.map { String(cString: $0) } ?? ""
    }
}

extension LibP11Token.Identity {
    init(_ information: TokenInformation) {
        self.init(
            manufacturer: information.manufacturer, model: information.model, serial: information.serial,
            label: information.label)
    }
}

extension LibP11Token {
    /// OpenSSL's view of the private key with that `CKA_ID`: an `EVP_PKEY` of the caller's own, to be freed with
    /// `EVP_PKEY_free`.
    ///
    /// The direct side is logged in: both sides are one PKCS#11 application, and libp11 need not know the PIN.
    ///
    /// - Throws: `keyAbsent`; `unsound` when it is not the private half of `publicKey`.
    func privateKey(id: Data, publicKey: PublicKey) throws(CryptokiError) -> OpaquePointer {
        LibP11Error.clear()
        var first: UnsafeMutablePointer<PKCS11_KEY>?
        var count: UInt32 = 0
        guard PKCS11_enumerate_keys(token, &first, &count) == 0 else { throw LibP11Error.take("PKCS11_enumerate_keys") }
        // The last that fits: those before it may be of an earlier login, when keys had other handles.
        let keys = UnsafeMutableBufferPointer(start: first, count: Int(count))
        guard let index = keys.lastIndex(where: { Self.bytes($0.id, $0.id_len) == id }) else {
            throw CryptokiError(.keyAbsent, function: "PKCS11_enumerate_keys", reason: "libp11 finds no such key")
        }
        guard let pointer = PKCS11_get_private_key(keys.baseAddress?.advanced(by: index)) else {
            throw LibP11Error.take("PKCS11_get_private_key")
        }
        guard Self.point(of: pointer) == publicKey.x963Representation else {
            EVP_PKEY_free(pointer)
            throw CryptokiError(
                .unsound, function: "PKCS11_get_private_key", reason: "it is another key than the one that was stored")
        }
        return pointer
    }

    static func bytes(_ start: UnsafeMutablePointer<UInt8>?, _ count: Int) -> Data {
        start.map { Data(bytes: $0, count: count) } ?? Data()
    }

    /// The uncompressed point of a key's public half, 65 bytes for P-256.
    private static func point(of key: OpaquePointer) -> Data? {
        var encoded: UnsafeMutablePointer<UInt8>?
        let count = EVP_PKEY_get1_encoded_public_key(key, &encoded)
        defer { CRYPTO_free(encoded, #file, #line) }
        return count > 0 ? bytes(encoded, count) : nil
    }
}
