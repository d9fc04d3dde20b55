internal import CLibP11

/// The functions of libp11 and libcrypto. A call before ``LibP11/load()`` has returned ends the
/// process.
let libp11 = LibP11.functions ?? latchkey_libp11()

/// The libraries are loaded when OpenSSL first uses a key, because loading them takes 1 ms, and
/// most programs do not use OpenSSL.
enum LibP11 {
    fileprivate static let functions: latchkey_libp11? = {
        var functions = latchkey_libp11()
        return latchkey_libp11_load(&functions) ? functions : nil
    }()

    static func load() throws(CryptokiError) {
        guard functions == nil else { return }
        throw CryptokiError(
            .unsupported, function: "dlopen",
            reason:
                "libp11.so.3 or libcrypto.so.3 cannot be loaded; install the packages libp11-3 and libssl3"
        )
    }
}
