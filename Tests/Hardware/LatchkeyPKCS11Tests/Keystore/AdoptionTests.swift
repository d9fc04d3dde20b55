import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import LatchkeyPKCS11

/// Keys that another program created.
@Suite(.softwareToken, .requires(program: "pkcs11-tool"))
struct AdoptionTests {
    @Test(arguments: [";id=%0a", ";object=foreign", ";id=%0a;object=foreign"])
    func `a key on the token is adopted by its id and its label`(_ name: String) async throws {
        try await makeForeignKey()
        let keystore = try KeystoreBench.keystore(naming: name)
        let presence = ScriptedPresence(pins: "correct", "correct")
        let key = try await KeystoreBench.key(on: keystore, .pin, label: "mine", presence)
        #expect(presence.requests.map(\.purpose) == [.current])
        #expect(try key.tokenID == "0a")
        #expect(key.label == "mine")
        let signature = try await KeystoreBench.sign(
            with: key, on: KeystoreBench.keystore(), presence)
        #expect(key.publicKey.isValid(signature, for: KeystoreBench.digest))
    }

    /// Certificate authorities put an RSA key and an EC key of one user under one ID.
    @Test(arguments: [";id=%0a", ";object=foreign", ";id=%0a;object=foreign"])
    func `a key is adopted and used beside a key of another type with its CKA_ID`(
        _ name: String
    ) async throws {
        try await make("RSA:2048", id: "0a", label: "other")
        try await makeForeignKey()
        let keystore = try KeystoreBench.keystore(naming: name)
        let key = try await KeystoreBench.key(on: keystore, .pin)
        let signature = try await KeystoreBench.sign(with: key, on: KeystoreBench.keystore())
        #expect(key.publicKey.isValid(signature, for: KeystoreBench.digest))
        let error = try await KeystoreBench.error {
            _ = try await KeystoreBench.key(
                on: KeystoreBench.keystore(naming: ";object=other"), .pin)
        }
        #expect(error.code == .unsupported && error.reason.contains("RSA"), "\(error)")
    }

    @Test func `a key without a CKA_ID is adopted after the advice`() async throws {
        try await make("EC:prime256v1", id: nil, label: "bare")
        let keystore = try KeystoreBench.keystore(naming: ";object=bare")
        let error = try await KeystoreBench.error {
            _ = try await KeystoreBench.key(on: keystore, .pin)
        }
        #expect(error.reason.contains("CKA_ID has 0 bytes"), "\(error)")
        #expect(error.recovery.contains("the same CKA_ID"), "\(error)")
        for type in ["privkey", "pubkey"] {
            let named = try await KeystoreBench.pkcs11Tool(
                "--set-id", "0d", "--type", type, "--label", "bare")
            try #require(named.isSuccess, "\(named.text)")
        }
        let key = try await KeystoreBench.key(on: keystore, .pin)
        #expect(try key.tokenID == "0d")
    }

    @Test func `a key that requires a PIN is not adopted without one`() async throws {
        try await makeForeignKey()
        let error = try await KeystoreBench.error {
            _ = try await KeystoreBench.key(on: KeystoreBench.keystore(naming: ";id=%0a"), .none)
        }
        #expect(error.code == .unsupported)
        #expect(error.reason == "the token requires a PIN for this key")
    }

    @Test func `a key that requires no PIN is not adopted with one`() async throws {
        let open = try await KeystoreBench.key(on: KeystoreBench.keystore(), .none)
        let adopting = try KeystoreBench.keystore(naming: ";id=\(percent(open.tokenID))")
        let error = try await KeystoreBench.error {
            _ = try await KeystoreBench.key(on: adopting, .pin)
        }
        #expect(error.code == .unsupported)
        #expect(error.reason == "the token uses this key without a PIN")
        let adopted = try await KeystoreBench.key(on: adopting, .none)
        #expect(adopted.publicKey == open.publicKey)
    }

    @Test func `a key that requires a PIN for each use is not adopted with a reuse time`()
        async throws
    {
        let strict = try await KeystoreBench.key(on: KeystoreBench.keystore(), .pin)
        let adopting = try KeystoreBench.keystore(naming: ";id=\(percent(strict.tokenID))")
        let policy = try #require(KeystoreBench.reusing)
        let error = try await KeystoreBench.error {
            _ = try await KeystoreBench.key(on: adopting, policy)
        }
        #expect(error.code == .unsupported)
    }

    @Test func `a missing key is not found after the login`() async throws {
        let presence = ScriptedPresence(pins: "correct")
        let error = try await KeystoreBench.error {
            _ = try await KeystoreBench.key(
                on: KeystoreBench.keystore(naming: ";id=%0b"), .pin, label: nil, presence)
        }
        #expect(error.code == .notFound)
        // The token may show the key only after the login.
        #expect(presence.requests.count == 1)
    }

    @Test(arguments: [
        (["--extractable"], "the token allows extracting the key"),
        (["--sensitive"], "the key was imported into the token"),
    ])
    func `an imported key is refused`(_ options: [String], _ reason: String) async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "key.der")
        let made = try await KeystoreBench.program(
            "openssl",
            [
                "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-outform",
                "DER", "-out", path,
            ])
        try #require(made.isSuccess, "\(made.text)")
        for type in ["privkey", "pubkey"] {
            let source = type == "privkey" ? path : try await publicHalf(of: path, in: directory)
            let written = try await KeystoreBench.pkcs11Tool(
                ["--write-object", source, "--type", type, "--id", "0c", "--usage-sign"] + options)
            try #require(written.isSuccess, "\(written.text)")
        }
        let error = try await KeystoreBench.error {
            _ = try await KeystoreBench.key(on: KeystoreBench.keystore(naming: ";id=%0c"), .pin)
        }
        #expect(error.reason.contains(reason), "\(error)")
    }

    @Test func `deleting an adopted key leaves it on the token`() async throws {
        try await makeForeignKey()
        let keystore = try KeystoreBench.keystore(naming: ";id=%0a")
        let key = try await KeystoreBench.key(on: keystore, .pin)
        try await keystore.delete(
            key, for: KeystoreBench.prompt, authorizedBy: ScriptedPresence([]))
        let signature = try await KeystoreBench.sign(with: key, on: keystore)
        #expect(key.publicKey.isValid(signature, for: KeystoreBench.digest))
    }

    private func makeForeignKey() async throws {
        try await make("EC:prime256v1", id: "0a", label: "foreign")
    }

    private func make(_ type: String, id: String?, label: String) async throws {
        let made = try await KeystoreBench.pkcs11Tool(
            ["--keypairgen", "--key-type", type, "--label", label, "--usage-sign"]
                + (id.map { ["--id", $0] } ?? []))
        try #require(made.isSuccess, "\(made.text)")
    }

    private func publicHalf(of path: String, in directory: TemporaryDirectory) async throws
        -> String
    {
        let target = directory.path(of: "public.der")
        let result = try await KeystoreBench.program(
            "openssl",
            ["pkey", "-inform", "DER", "-in", path, "-pubout", "-outform", "DER", "-out", target])
        try #require(result.isSuccess, "\(result.text)")
        return target
    }

    private func percent(_ digits: String) -> String {
        stride(from: 0, to: digits.utf8.count, by: 2).map { "%" + digits.dropFirst($0).prefix(2) }
            .joined()
    }
}
