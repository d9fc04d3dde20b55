import FoundationEssentials
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

/// PKCS #11 modules for PIV cards.
enum PKCS11Module: String, CaseIterable, CustomTestStringConvertible {
    case ykcs11 = "libykcs11.so"
    case opensc = "opensc-pkcs11.so"

    var testDescription: String { rawValue }

    var path: String { "/usr/lib/x86_64-linux-gnu/\(rawValue)" }

    /// Runs pkcs11-tool with the module.
    @discardableResult
    func run(_ arguments: [String]) async throws -> String {
        try await SystemProgram("pkcs11-tool").require(["--module", path] + arguments)
    }

    /// Runs pkcs11-tool with the module, and returns its result also if it fails.
    func result(
        _ arguments: [String], input: [UInt8] = []
    ) async throws -> SystemProgram.Outcome {
        try await SystemProgram("pkcs11-tool").result(
            of: ["--module", path] + arguments, input: input)
    }

    /// Runs a program that logs in as the user of the first token and ends without `C_Finalize`, as
    /// if it was killed.
    ///
    /// - Parameter andOut: Whether the program calls `C_Logout` before it ends.
    func logIn(andOut: Bool) async throws {
        // The members of CK_FUNCTION_LIST (PKCS #11 3.0, pkcs11f.h) by number; the version is
        // before them.
        let script = """
            import ctypes, os, sys
            module = ctypes.CDLL(sys.argv[1]); table = ctypes.POINTER(ctypes.c_void_p)()
            module.C_GetFunctionList(ctypes.byref(table))
            def call(number, *arguments):
                function = ctypes.CFUNCTYPE(ctypes.c_ulong, *map(type, arguments))(table[number + 1])
                code = function(*arguments)
                if code: os._exit(code & 0xff)
            void, ulong = ctypes.c_void_p, ctypes.c_ulong
            slots, count, session = (ulong * 16)(), ulong(16), ulong()
            call(0, void())
            call(4, ctypes.c_ubyte(1), void(ctypes.addressof(slots)), void(ctypes.addressof(count)))
            call(12, ulong(slots[0]), ulong(4), void(), void(), void(ctypes.addressof(session)))
            call(18, session, ulong(1), ctypes.c_char_p(b"123456"), ulong(6))
            if sys.argv[2] == "true": call(19, session)
            os._exit(0)
            """
        try await SystemProgram("python3").require(["-c", script, path, String(andOut)])
    }

    /// Signs with the key, and verifies with OpenSSL and the public key that the module reports.
    ///
    /// - Parameter mechanism: `ECDSA`, which signs the digest, or one that signs the message.
    func expectSignature(
        keyID: String, pin: String = "123456", mechanism: String = "ECDSA", slot: [String] = [],
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let message = directory.path(of: "message")
            let digest = directory.path(of: "digest")
            let signature = directory.path(of: "signature")
            let publicKey = directory.path(of: "public.der")
            try Data("a message".utf8).write(to: URL(filePath: message))
            let openssl = SystemProgram("openssl")
            try await openssl.require(["dgst", "-sha256", "-binary", "-out", digest, message])
            let input =
                mechanism == "ECDSA" ? [digest, "--signature-format", "openssl"] : [message]
            try await run(
                slot + [
                    "--login", "--pin", pin, "--sign", "-m", mechanism, "--id", keyID, "-o",
                    signature, "-i",
                ]
                    + input)
            try await run(
                slot + ["--read-object", "--type", "pubkey", "--id", keyID, "-o", publicKey])
            let verdict = try await openssl.require(
                [
                    "dgst", "-sha256", "-verify", publicKey, "-keyform", "DER", "-signature",
                    signature, message,
                ])
            #expect(verdict.contains("Verified OK"), sourceLocation: sourceLocation)
        }
    }
}
