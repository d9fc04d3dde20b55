internal import CPKCS11

/// p11-kit's library, which parses URIs of tokens and loads their modules.
enum LibP11Kit {
    /// - Throws: `unsupported` if the library is not installed.
    static func load() throws(CryptokiError) -> latchkey_p11_kit {
        guard let functions else {
            throw CryptokiError(
                .unsupported, function: "dlopen",
                reason: "libp11-kit.so.0 cannot be loaded; install the package libp11-kit0")
        }
        return functions
    }

    /// The path of the library's file; nil if it is not installed.
    static let file: String? = functions.flatMap { functions in
        withUnsafePointer(to: functions) { latchkey_p11_kit_file($0).map { String(cString: $0) } }
    }

    private static let functions: latchkey_p11_kit? = {
        var functions = latchkey_p11_kit()
        return latchkey_p11_kit_load(&functions) ? functions : nil
    }()
}
