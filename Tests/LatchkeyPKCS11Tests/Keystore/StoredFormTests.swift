import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import SwiftASN1
import Testing

@testable import LatchkeyPKCS11

/// Stored bytes with a digest that fits, made by somebody who means harm.
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
    func `a name that names too little or too much is none`(_ text: String) {
        #expect(TokenName(text) == nil)
    }

    @Test func `a name is read as it was written`() throws {
        let text = "pkcs11:manufacturer=Yubico%20%28%c3%a9%29;model=a;serial=0012;token=%3b%3d%3f;id=%00%ff"
        let name = try #require(TokenName(text))
        #expect(name.manufacturer == "Yubico (é)")
        #expect(name.label == ";=?")
        #expect(Array(name.id) == [0, 0xff])
        #expect(name.uri == text)
        #expect(name.hasSerial)
    }

    @Test func `another version, a cut and a giant are damaged`() async throws {
        let keystore = try KeystoreBench.keystore()
        let key = try await KeystoreBench.key(on: keystore, .none)
        let structure = Array(key.blob.dropLast(32))
        var newer = structure
        let version = try #require(structure.firstRange(of: [0x02, 0x01, 0x01]))
        newer[version.lowerBound + 2] = 2
        let giant = structure + Array(repeating: 0, count: 64 * 1024)
        for bytes in [newer, Array(structure.dropLast()), giant, [0x30, 0x84, 0xff, 0xff, 0xff, 0xff], []] {
            let forged = key.replacing(blob: Data(bytes) + Data(MessageDigest(sha256: bytes).bytes))
            let error = try await KeystoreBench.error {
                _ = try await KeystoreBench.sign(with: forged, on: keystore)
            }
            #expect(error.code == .damaged)
        }
    }

    @Test func `a secret does not open with a forged header whose digest fits`() async throws {
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
        let opened = try await keystore.unseal(secret, for: KeystoreBench.prompt, authorizedBy: presence)
        #expect(opened.count == 32)
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
