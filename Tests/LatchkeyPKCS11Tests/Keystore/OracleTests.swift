import FoundationEssentials
import Latchkey
import LatchkeyPKCS11
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// What programs that we did not write say of our keys.
@Suite(.softwareToken, .requires(program: "pkcs11-tool"), .requires(program: "openssl"))
struct OracleTests {
    @Test func `pkcs11-tool shows a guarded key as one that never left the token and wants a PIN each time`()
        async throws
    {
        let key = try await KeystoreBench.key(on: KeystoreBench.keystore(), .pin, label: "work")
        let listing = try await KeystoreBench.pkcs11Tool("--list-objects", "--type", "privkey", "--id", key.tokenID)
        #expect(listing.text.contains("label:      work"))
        #expect(
            listing.text.contains(
                "Access:     always authenticate, sensitive, always sensitive, never extractable, local"),
            "\(listing.text)")
    }

    @Test func `a key whose proof may be reused does not want one at each use`() async throws {
        let policy = try #require(KeystoreBench.reusing)
        let key = try await KeystoreBench.key(on: KeystoreBench.keystore(), policy)
        let listing = try await KeystoreBench.pkcs11Tool("--list-objects", "--type", "privkey", "--id", key.tokenID)
        #expect(
            listing.text.contains("Access:     sensitive, always sensitive, never extractable, local"),
            "\(listing.text)")
    }

    @Test func `pkcs11-tool can not wrap a private key`() async throws {
        let key = try await KeystoreBench.key(on: KeystoreBench.keystore(), .none)
        let made = try await KeystoreBench.pkcs11Tool(
            "--keygen", "--key-type", "AES:32", "--id", "f0", "--usage-wrap", "--label", "wrapping")
        try #require(made.isSuccess, "\(made.text)")
        let wrapped = try await KeystoreBench.pkcs11Tool(
            "--wrap", "--mechanism", "AES-KEY-WRAP-PAD", "--id", "f0", "--application-id", key.tokenID)
        #expect(wrapped.text.contains("CKR_KEY_UNEXTRACTABLE"), "\(wrapped.text)")
    }

    @Test(arguments: [AccessPolicy.none, .pin])
    func `openssl verifies our signature`(_ policy: AccessPolicy) async throws {
        let keystore = try KeystoreBench.keystore()
        let key = try await KeystoreBench.key(on: keystore, policy)
        let signature = try await KeystoreBench.sign(with: key, on: keystore)
        let directory = try TemporaryDirectory()
        try Data(key.publicKey.pemRepresentation.utf8).write(to: URL(filePath: directory.path(of: "key.pem")))
        try signature.derRepresentation.write(to: URL(filePath: directory.path(of: "signature")))
        try Data("a message".utf8).write(to: URL(filePath: directory.path(of: "message")))
        let result = try await KeystoreBench.program(
            "openssl",
            [
                "dgst", "-sha256", "-verify", directory.path(of: "key.pem"), "-signature",
                directory.path(of: "signature"), directory.path(of: "message"),
            ])
        #expect(result.text.contains("Verified OK"), "\(result.text)")
    }
}
