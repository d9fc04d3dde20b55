internal import CLibP11
internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyPlatform
internal import Synchronization

/// libp11's state for one module: a context, and the slots when it was created.
///
/// A context of libp11 0.4.12 can't be freed safely: `PKCS11_CTX_unload` finalizes the module for
/// the whole process, `PKCS11_release_all_slots` closes all sessions and invalidates keys in use,
/// and `PKCS11_update_slots` uses freed memory. A context is therefore created, used, and
/// **abandoned**: it is never unloaded, freed, released or updated. It costs a few kilobytes.
///
/// Its calls block, and a call blocks forever if the token opens no session. Make them on an
/// operating system thread, with a deadline, and only after a session was opened directly. Safe to
/// share: a context is used by one thread at a time, while its token's thread waits.
final class LibP11Context: @unchecked Sendable {
    let library: LibP11
    let pointer: LibP11.Context
    private let slots: UnsafeMutableBufferPointer<PKCS11_SLOT>

    /// Loads a module that ``ModuleLoader`` has initialized, and lists its slots.
    init(modulePath: String) throws(CryptokiError) {
        library = try LibP11.loaded.get()
        ERR_clear_error()
        guard let pointer = library.newContext() else {
            throw LibP11Error.take("PKCS11_CTX_new")
        }
        self.pointer = pointer
        ContextProof.withdraw(from: pointer, library)
        guard library.load(pointer, modulePath) == 0 else {
            throw LibP11Error.take("PKCS11_CTX_load")
        }
        var first: UnsafeMutablePointer<PKCS11_SLOT>?
        var count: UInt32 = 0
        guard library.enumerateSlots(pointer, &first, &count) == 0 else {
            throw LibP11Error.take("PKCS11_enumerate_slots")
        }
        slots = UnsafeMutableBufferPointer(start: first, count: Int(count))
    }

    /// The only token with this information in the slots that were listed at creation.
    private func token(_ information: TokenInformation) throws(CryptokiError)
        -> UnsafeMutablePointer<PKCS11_TOKEN>
    {
        let wanted = [
            information.manufacturer, information.model, information.serial, information.label,
        ]
        let fitting = slots.compactMap(\.token).filter { token in
            [
                token.pointee.manufacturer, token.pointee.model, token.pointee.serialnr,
                token.pointee.label,
            ]
            .map { $0.map { String(cString: $0) } ?? "" } == wanted
        }
        guard let token = fitting.first else {
            throw CryptokiError(
                .tokenAbsent, function: "PKCS11_enumerate_slots", reason: "the token was removed")
        }
        guard fitting.count == 1 else {
            throw CryptokiError(
                .tokenAmbiguous, function: "PKCS11_enumerate_slots",
                reason:
                    "\(fitting.count) tokens have the label ‘\(information.label)’ and the serial number"
                    + " ‘\(information.serial)’")
        }
        return token
    }

    /// The private key with a `CKA_ID` as an `EVP_PKEY`; the caller frees it with `EVP_PKEY_free`.
    ///
    /// The token's session is logged in, and libp11's sessions share the login, so libp11 does not
    /// get the PIN.
    ///
    /// - Throws: `keyAbsent`; `unsound` if it is not the private half of `publicKey`.
    func privateKey(
        id: Data, publicKey: PublicKey, on information: TokenInformation
    ) throws(CryptokiError) -> OpaquePointer {
        let token = try token(information)
        ERR_clear_error()
        var first: UnsafeMutablePointer<PKCS11_KEY>?
        var count: UInt32 = 0
        guard library.enumerateKeys(token, &first, &count) == 0 else {
            throw LibP11Error.take("PKCS11_enumerate_keys")
        }
        // The last match: earlier ones may be from an earlier login, with other handles.
        let keys = UnsafeMutableBufferPointer(start: first, count: Int(count))
        guard let index = keys.lastIndex(where: { Self.bytes($0.id, $0.id_len) == id }) else {
            throw CryptokiError(
                .keyAbsent, function: "PKCS11_enumerate_keys", reason: "libp11 finds no such key")
        }
        guard let pointer = library.privateKey(keys.baseAddress?.advanced(by: index)) else {
            throw LibP11Error.take("PKCS11_get_private_key")
        }
        guard Self.point(of: pointer) == publicKey.x963Representation else {
            EVP_PKEY_free(pointer)
            throw CryptokiError(
                .unsound, function: "PKCS11_get_private_key",
                reason: "libp11 did not return the stored key")
        }
        return pointer
    }

    private static func bytes(_ start: UnsafeMutablePointer<UInt8>?, _ count: Int) -> Data {
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

// The libp11 contexts of this process, one for each token that OpenSSL uses.
//
// A context is valid for one epoch of its module. After the module was initialized again, or the
// token was removed, the context is abandoned and the next use creates a new one.
extension LibP11Context {
    private struct Key: Hashable {
        let path: String
        let identity: TokenIdentity

        init(_ token: Token) {
            path = token.module.path
            identity = token.identity
        }
    }

    private static let entries = Mutex<[Key: (epoch: Int, context: LibP11Context)]>([:])

    /// The token's context, which is created if necessary. Call it on a thread for libp11 while the
    /// token's thread waits.
    static func of(_ token: Token) throws(CryptokiError) -> LibP11Context {
        let key = Key(token)
        let epoch = token.module.epoch
        if let entry = entries.withLock({ $0[key] }), entry.epoch == epoch { return entry.context }
        let context = try LibP11Context(modulePath: token.module.path)
        entries.withLock { $0[key] = (epoch, context) }
        return context
    }

    /// Forgets the token's context without freeing it.
    static func abandon(_ token: Token) {
        entries.withLock { _ = $0.removeValue(forKey: Key(token)) }
    }
}

/// Reads the cause of a libp11 error from OpenSSL's error queue, and empties the queue.
///
/// The first entry is often misleading ("expecting an rsa key" for a removed card). The module's
/// code is the reason of the last entry whose library is the one that libp11 registered for `CKR_…`
/// codes.
enum LibP11Error {
    /// - Parameter function: The libp11 function that failed.
    static func take(_ function: String) -> CryptokiError {
        let library = try? LibP11.loaded.get().errorLibrary
        var answer: UInt?
        var last: UInt = 0
        while true {
            let code = ERR_get_error()
            guard code != 0 else { break }
            last = code
            if ERR_GET_LIB(code) == library {
                answer = UInt(truncatingIfNeeded: ERR_GET_REASON(code))
            }
        }
        // libp11 reports its own code as the module's if it did not get a PIN.
        if let answer, answer != UInt(P11_R_UI_FAILED) {
            return CryptokiError(ReturnValue(rawValue: answer), from: function)
        }
        if answer != nil {
            return CryptokiError(
                .loginNeeded, function: function,
                reason: "the proof is valid for one signature only")
        }
        let words =
            ERR_reason_error_string(last).map { String(cString: $0) }
            ?? "OpenSSL reports no cause"
        return CryptokiError(.unsupported, function: function, reason: "libp11 failed: \(words)")
    }
}

/// The functions of libp11, an optional library: only OpenSSL's use of keys needs it.
struct LibP11: Sendable {
    typealias Context = UnsafeMutablePointer<PKCS11_CTX>
    typealias List<Element> = UnsafeMutablePointer<UnsafeMutablePointer<Element>?>

    let newContext: @convention(c) () -> Context?
    let load: @convention(c) (Context, UnsafePointer<CChar>) -> Int32
    let enumerateSlots:
        @convention(c) (Context, List<PKCS11_SLOT>, UnsafeMutablePointer<UInt32>) -> Int32
    let enumerateKeys:
        @convention(c) (
            UnsafeMutablePointer<PKCS11_TOKEN>, List<PKCS11_KEY>, UnsafeMutablePointer<UInt32>
        ) -> Int32
    let privateKey: @convention(c) (UnsafeMutablePointer<PKCS11_KEY>?) -> OpaquePointer?
    let setInterface: @convention(c) (Context, OpaquePointer?, UnsafeMutableRawPointer?) -> Int32
    /// OpenSSL's number for the library of `CKR_…` codes. libp11 allocates it at its first use
    /// without a lock: two threads could get two numbers, and one of them could not read its
    /// errors. It is therefore allocated here, once, before any other use of libp11.
    let errorLibrary: Int32

    static let loaded = Result { () throws(CryptokiError) in
        do throws(OptionalLibrary.Missing) {
            return try LibP11()
        } catch {
            throw CryptokiError(
                .unsupported, function: "dlopen",
                reason: "libp11.so.3 cannot be loaded; install the package libp11-3")
        }
    }

    private init() throws(OptionalLibrary.Missing) {
        let library = try OptionalLibrary("libp11.so.3")
        newContext = try library.function("PKCS11_CTX_new")
        load = try library.function("PKCS11_CTX_load")
        enumerateSlots = try library.function("PKCS11_enumerate_slots")
        enumerateKeys = try library.function("PKCS11_enumerate_keys")
        privateKey = try library.function("PKCS11_get_private_key")
        setInterface = try library.function("PKCS11_set_ui_method")
        let loadStrings: @convention(c) () -> Void = try library.function("ERR_load_PKCS11_strings")
        let errorLibrary: @convention(c) () -> Int32 = try library.function("ERR_get_CKR_code")
        loadStrings()
        self.errorLibrary = errorLibrary()
    }
}
