import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Other people's tools read and use what is exported.
@Suite(.softwareTPM)
struct InteroperationTests {
    @Test(.requires(program: "openssl")) func `openssl signs with a key without a PIN`()
        async throws
    {
        try await TemporaryDirectory.withDirectory { directory in
            let tcti = try SoftwareTPM.current.tcti
            let key = try await Scene.key(
                TPMKeystore(tcti: tcti, anchors: MemoryTrustAnchors()), .none)
            try write(TPMKeystore.tss2PrivateKey(of: key), to: directory.path(of: "key.pem"))
            try write("a message", to: directory.path(of: "message"))
            try write(key.publicKey.pemRepresentation, to: directory.path(of: "public.pem"))
            _ = try await openssl(
                [
                    "dgst", "-sha256", "-provider", "tpm2", "-provider", "default", "-propquery",
                    "?provider=tpm2",
                    "-sign", directory.path(of: "key.pem"), "-out", directory.path(of: "signature"),
                    directory.path(of: "message"),
                ], tcti)
            let verdict = try await openssl(
                [
                    "dgst", "-sha256", "-verify", directory.path(of: "public.pem"), "-signature",
                    directory.path(of: "signature"), directory.path(of: "message"),
                ], tcti)
            #expect(verdict.contains("Verified OK"))
        }
    }

    private func write(_ text: String, to path: String) throws {
        try Data(text.utf8).write(to: URL(filePath: path))
    }

    private func openssl(_ arguments: [String], _ tcti: String) async throws -> String {
        try await output("openssl", arguments, tcti)
    }

    private func output(_ program: String, _ arguments: [String], _ tcti: String) async throws
        -> String
    {
        let environment = [
            "TPM2OPENSSL_TCTI": tcti, "TPM2TOOLS_TCTI": tcti, "TSS2_LOG": "all+NONE",
        ]
        let outcome = try await SystemProgram(program, environment: environment).result(
            of: arguments)
        try #require(outcome.isSuccess, "\(program): \(outcome.errors)")
        return outcome.output
    }
}
