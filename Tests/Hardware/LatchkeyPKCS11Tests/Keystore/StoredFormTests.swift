import Crypto
import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import SwiftASN1
import Testing

@testable import LatchkeyPKCS11

/// Forged stored bytes with a valid digest.
@Suite(.softwareToken)
struct StoredFormTests {
    @Test(arguments: [
        "", "pkcs11:", "pkcs11:token=a;serial=b;model=c;manufacturer=d",
        "pkcs11:token=a;serial=b;model=c;manufacturer=d;id=",
        "pkcs11:token=a;serial=b;model=c;manufacturer=d;id=%01?pin-value=1234",
        "pkcs11:token=a;serial=b;model=c;manufacturer=d;id=%01?module-path=/tmp/evil.so",
        "pkcs11:token=a;serial=b;model=c;manufacturer=d;id=%01;colour=red",
        "pkcs11:token=a;serial=b;model=c;manufacturer=d;id=" + String(repeating: "%01", count: 65),
        "pkcs11:" + String(repeating: "x", count: 2000),
    ])
    func `a name with missing or additional attributes is refused`(_ text: String) {
        #expect(TokenName(text) == nil)
    }

    @Test func `a name is read as it was written`() throws {
        let text =
            "pkcs11:manufacturer=Yubico%20%28%c3%a9%29;model=a;serial=0012;token=%3b%3d%3f;id=%00%ff"
        let name = try #require(TokenName(text))
        #expect(name.manufacturer == "Yubico (é)")
        #expect(name.label == ";=?")
        #expect(Array(name.id) == [0, 0xff])
        #expect(name.uri == text)
        #expect(name.hasSerial)
    }

    @Test(arguments: [
        ("serial", "0123%039abcdef0123", "0123?9abcdef0123"),
        ("serial", "0123%909abcdef0123", "0123?9abcdef0123"),
        (
            "token", String(repeating: "x", count: 31) + "%c3",
            String(repeating: "x", count: 31) + "?"
        ),
    ])
    func `invalid text of a token becomes a valid name`(
        _ field: String, _ value: String, _ read: String
    )
        throws
    {
        let fields = ["manufacturer": "m", "model": "m", "serial": "s", "token": "t"].merging([
            field: value
        ]) { $1 }
        let name = try #require(
            TokenName("pkcs11:id=%01;" + fields.map { "\($0)=\($1)" }.joined(separator: ";")))
        #expect((field == "serial" ? name.serial : name.label) == read)
        #expect(TokenName(name.uri) == name)
    }

    @Test func `another version, truncated bytes and too many bytes are damaged`() async throws {
        let keystore = try KeystoreBench.keystore()
        let key = try await KeystoreBench.key(on: keystore, .none)
        let structure = Array(key.blob.dropLast(32))
        var newer = structure
        let version = try #require(structure.firstRange(of: [0x02, 0x01, 0x01]))
        newer[version.lowerBound + 2] = 2
        let giant = structure + Array(repeating: 0, count: 64 * 1024)
        for bytes in [
            newer, Array(structure.dropLast()), giant, [0x30, 0x84, 0xff, 0xff, 0xff, 0xff], [],
        ] {
            let forged = key.replacing(blob: Data(bytes) + Data(MessageDigest(sha256: bytes).bytes))
            let error = try await KeystoreBench.error {
                _ = try await KeystoreBench.sign(with: forged, on: keystore)
            }
            #expect(error.code == .damaged)
        }
    }

    @Test func `a secret does not open with a forged header and a valid digest`() async throws {
        let keystore = try KeystoreBench.keystore()
        let presence = ScriptedPresence([])
        let secret = try await keystore.seal(
            .random(count: 32), policy: .none, for: KeystoreBench.prompt, authorizedBy: presence)
        let box = try DigestedStructure.parsed(secret.blob, as: SealedBox.self)
        let other = try await keystore.seal(
            .random(count: 32), policy: .none, for: KeystoreBench.prompt, authorizedBy: presence)
        let otherBox = try DigestedStructure.parsed(other.blob, as: SealedBox.self)
        let crossed = try SealedBox(header: otherBox.header, sealedAs: box)
        let forged = secret.replacing(blob: try DigestedStructure.serialized(crossed))
        let error = try await KeystoreBench.error {
            _ = try await keystore.unseal(forged, for: KeystoreBench.prompt, authorizedBy: presence)
        }
        #expect(error.code == .damaged)
        let opened = try await keystore.unseal(
            secret, for: KeystoreBench.prompt, authorizedBy: presence)
        #expect(opened.count == 32)
    }

    @Test func `a box that was created with only the public key does not open`() async throws {
        let keystore = try KeystoreBench.keystore()
        let presence = ScriptedPresence([])
        let secret = try await keystore.seal(
            .random(count: 32), policy: .none, for: KeystoreBench.prompt, authorizedBy: presence)
        let header = try DigestedStructure.parsed(secret.blob, as: SealedBox.self).header
        let publicKey = try #require(
            try await KeystoreBench.withSession { (session) throws(CryptokiError) in
                try session.publicKey(id: header.name.id)
            })
        // An attacker can compute an ephemeral key's agreement with the token's point.
        let peer = try P256.KeyAgreement.PublicKey(x963Representation: publicKey.x963Representation)
        let shared = try P256.KeyAgreement.PrivateKey().sharedSecretFromKeyAgreement(with: peer)
        let forged = try SealedBox(
            sealing: .random(count: 32), header: header,
            sharedSecret: shared.withUnsafeBytes { SecretBytes(Array($0)) })
        let blob = try DigestedStructure.serialized(forged)
        let error = try await KeystoreBench.error {
            _ = try await keystore.unseal(
                secret.replacing(blob: blob), for: KeystoreBench.prompt, authorizedBy: presence)
        }
        #expect(error.code == .damaged)
    }

    @Test func `each header has a different point`() throws {
        let name = try #require(TokenName("pkcs11:token=a;serial=b;model=c;manufacturer=d;id=%01"))
        let terms = KeyTerms(policy: .pin, assurance: AssuranceLevel(root: .token, presence: .pin))
        let points = try (0..<64).map { number in
            try SealedBox.Header(
                name: name, publicKeyHash: Data(repeating: 1, count: 32), terms: terms,
                establishment: .agreement, salt: Data(repeating: number, count: 32)
            ).point()
        }
        #expect(Set(points).count == 64)
    }

    @Test(.requires(program: "pkcs11-tool"))
    func `an imported sealing key is refused`() async throws {
        let folder = try TemporaryDirectory()
        let key = P256.KeyAgreement.PrivateKey()
        let id = KeyPairRequest.sealingID(for: .pin, .agreement).hexadecimal
        for (type, bytes) in [
            ("privkey", key.derRepresentation), ("pubkey", key.publicKey.derRepresentation),
        ] {
            let file = folder.path(of: type)
            try bytes.write(to: URL(filePath: file))
            let planted = try await KeystoreBench.pkcs11Tool(
                "--write-object", file, "--type", type, "--id", id, "--usage-derive")
            try #require(planted.isSuccess, "\(planted.text)")
        }
        let keystore = try KeystoreBench.keystore()
        let error = try await KeystoreBench.error {
            _ = try await keystore.seal(
                .random(count: 32), policy: .pin, for: KeystoreBench.prompt,
                authorizedBy: ScriptedPresence(pins: "correct"))
        }
        #expect(error.code == .refused)
    }
}

extension SealedBox {
    /// One box's header on another one's ciphertext.
    fileprivate init(header: Header, sealedAs other: SealedBox) throws {
        var serializer = DER.Serializer()
        try serializer.appendConstructedNode(identifier: .sequence) { coder in
            try coder.serialize(header)
            try coder.serialize(ASN1OctetString(contentBytes: Array(other.sealed)[...]))
        }
        try self.init(derEncoded: serializer.serializedBytes)
    }
}
