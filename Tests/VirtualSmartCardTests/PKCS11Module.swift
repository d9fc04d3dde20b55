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
        try await SystemProgram("pkcs11-tool").result(of: ["--module", path] + arguments, input: input)
    }

    /// Signs with the key, and verifies with OpenSSL and the public key that the module reports.
    func expectSignature(keyID: String, pin: String = "123456", sourceLocation: SourceLocation = #_sourceLocation)
        async throws
    {
        try await TemporaryDirectory.withDirectory { directory in
            let message = directory.path(of: "message")
            let digest = directory.path(of: "digest")
            let signature = directory.path(of: "signature")
            let publicKey = directory.path(of: "public.der")
            try Data("a message".utf8).write(to: URL(filePath: message))
            let openssl = SystemProgram("openssl")
            try await openssl.require(["dgst", "-sha256", "-binary", "-out", digest, message])
            try await run(
                [
                    "--login", "--pin", pin, "--sign", "-m", "ECDSA", "--id", keyID, "-i", digest, "-o", signature,
                    "--signature-format", "openssl",
                ])
            try await run(["--read-object", "--type", "pubkey", "--id", keyID, "-o", publicKey])
            let verdict = try await openssl.require(
                ["dgst", "-sha256", "-verify", publicKey, "-keyform", "DER", "-signature", signature, message])
            #expect(verdict.contains("Verified OK"), sourceLocation: sourceLocation)
        }
    }
}
