import FoundationEssentials
import Latchkey
import LatchkeyPKCS11
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Independent programs inspect and verify the keys.
@Suite(.softwareToken, .requires(program: "pkcs11-tool"), .requires(program: "openssl"))
struct OracleTests {
    @Test
    func `pkcs11-tool reports a PIN-protected key as never extractable and always authenticating`()
        async throws
    {
        let key = try await KeystoreBench.key(on: KeystoreBench.keystore(), .pin, label: "work")
        let listing = try await KeystoreBench.pkcs11Tool(
            "--list-objects", "--type", "privkey", "--id", key.tokenID)
        #expect(listing.text.contains("label:      work"))
        #expect(
            listing.text.contains(
                "Access:     always authenticate, sensitive, always sensitive, never extractable, local"
            ),
            "\(listing.text)")
    }

    @Test func `a key with a reuse time does not require a proof for each use`() async throws {
        let policy = try #require(KeystoreBench.reusing)
        let key = try await KeystoreBench.key(on: KeystoreBench.keystore(), policy)
        let listing = try await KeystoreBench.pkcs11Tool(
            "--list-objects", "--type", "privkey", "--id", key.tokenID)
        #expect(
            listing.text.contains(
                "Access:     sensitive, always sensitive, never extractable, local"),
            "\(listing.text)")
    }

    @Test(.requires(program: "python3")) func `a private key can't be wrapped after a login`()
        async throws
    {
        let key = try await KeystoreBench.key(on: KeystoreBench.keystore(), .pin)
        let token = try SoftwareToken.current
        let result = try await KeystoreBench.program(
            "python3", ["-c", Self.wrapping, token.modulePath, token.userPIN, key.tokenID])
        // CKR_KEY_UNEXTRACTABLE
        #expect(result.text == "1 0x6a\n")
    }

    /// Logs in, finds the private key by its ID, and wraps it with a new AES key. Prints how many
    /// keys were found and what C_WrapKey answers.
    private static let wrapping = """
        import sys
        from ctypes import *
        module = CDLL(sys.argv[1])
        class Attribute(Structure):
            _fields_ = [("type", c_ulong), ("value", c_void_p), ("length", c_ulong)]
        class Mechanism(Structure):
            _fields_ = [("type", c_ulong), ("parameter", c_void_p), ("length", c_ulong)]
        kept = []
        def template(*pairs):
            kept.extend(create_string_buffer(value, len(value)) for _, value in pairs)
            buffers = kept[-len(pairs):]
            return (Attribute * len(pairs))(*[
                Attribute(pairs[i][0], cast(buffers[i], c_void_p), len(pairs[i][1])) for i in range(len(pairs))])
        def number(value): return value.to_bytes(8, "little")
        assert module.C_Initialize(None) == 0
        slots, count = (c_ulong * 8)(), c_ulong(8)
        assert module.C_GetSlotList(1, slots, byref(count)) == 0
        session = c_ulong()
        assert module.C_OpenSession(slots[0], c_ulong(6), None, None, byref(session)) == 0
        pin = sys.argv[2].encode()
        assert module.C_Login(session, c_ulong(1), pin, c_ulong(len(pin))) == 0
        search = template((0x0, number(3)), (0x102, bytes.fromhex(sys.argv[3])))
        assert module.C_FindObjectsInit(session, search, c_ulong(2)) == 0
        keys, found = (c_ulong * 8)(), c_ulong()
        assert module.C_FindObjects(session, keys, c_ulong(8), byref(found)) == 0
        assert module.C_FindObjectsFinal(session) == 0
        wanted = template((0x161, number(32)), (0x106, b"\\1"), (0x1, b"\\0"))
        wrapper = c_ulong()
        assert module.C_GenerateKey(
            session, byref(Mechanism(0x1080, None, 0)), wanted, c_ulong(3), byref(wrapper)) == 0
        output, length = create_string_buffer(4096), c_ulong(4096)
        answer = module.C_WrapKey(
            session, byref(Mechanism(0x210a, None, 0)), wrapper, c_ulong(keys[0]), output, byref(length))
        print(found.value, hex(answer))
        """

    @Test(arguments: [AccessPolicy.none, .pin])
    func `openssl verifies the signature`(_ policy: AccessPolicy) async throws {
        let keystore = try KeystoreBench.keystore()
        let key = try await KeystoreBench.key(on: keystore, policy)
        let signature = try await KeystoreBench.sign(with: key, on: keystore)
        let directory = try TemporaryDirectory()
        try Data(key.publicKey.pemRepresentation.utf8).write(
            to: URL(filePath: directory.path(of: "key.pem")))
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
