import Crypto
import Foundation
import TPM2
import Testing

@testable import LatchkeyRelyingParty

@Suite("Credentials for endorsement keys") struct ProtectedCredentialTests {
    private static let name = "000b93c733b3eae1860ae9466382b84c66a1747710f33ec53758349183828a3033d5"
    private static let credential = Data(0..<32)

    private static func tpmName() throws -> TPMName {
        TPMName(bytes: Array(try #require(Data(hex: name))))
    }

    /// The private key with this number.
    private static func scalar(_ number: UInt8, bytes: Int) -> Data {
        Data(count: bytes - 1) + [number]
    }

    @Test func `a credential for P-256 is that of an independent program`() throws {
        let key = try P256.Signing.PrivateKey(rawRepresentation: Self.scalar(2, bytes: 32))
            .publicKey
        let made = try ProtectedCredential(
            Self.credential, for: key, name: Self.tpmName(),
            ephemeralKey: P256.KeyAgreement.PrivateKey(rawRepresentation: Self.scalar(3, bytes: 32))
        )
        #expect(
            made.blob
                == Data(
                    hex:
                        "00208de1bd8804f37d8f59eb234f3bd6ff87dd1f140bdbb0993ada539e2c9be56b4568d7734cf853366051514b24"
                        + "78f39a4be214c18bb5c2e3137b902c214b8562a12c6b"))
        #expect(
            made.encryptedSeed
                == Data(
                    hex:
                        "00205ecbe4d1a6330a44c8f7ef951d4bf165e6c6b721efada985fb41661bc6e7fd6c00208734640c4998ff7e374b"
                        + "06ce1a64a2ecd82ab036384fb83d9a79b127a27d5032"))
    }

    @Test func `a credential for P-384 is that of an independent program`() throws {
        let key = try P384.Signing.PrivateKey(rawRepresentation: Self.scalar(2, bytes: 48))
            .publicKey
        let made = try ProtectedCredential(
            Self.credential, for: key, name: Self.tpmName(),
            ephemeralKey: P384.KeyAgreement.PrivateKey(rawRepresentation: Self.scalar(3, bytes: 48))
        )
        #expect(
            made.blob
                == Data(
                    hex:
                        "00303240499dc39ab8fdb7f438aa2f3b8227c440e952db8daa1f012ac3ac600859fd34a8102ed8e5eaa36a8d2ceafd8a"
                        + "1891129405217cea4c12829c8376524323785dcae92b51e2d9fd217a44b6f74786dfcc2b"
                ))
        #expect(
            made.encryptedSeed
                == Data(
                    hex:
                        "0030077a41d4606ffa1464793c7e5fdc7d98cb9d3910202dcd06bea4f240d3566da6b408bbae5026580d02d7e5c70500"
                        + "c8310030c995f7ca0b0c42837d0bbe9602a9fc998520b41c85115aa5f7684c0edc111eacc24abd6be4b5d298b65f28600a2f"
                        + "1df1"))
    }

    @Test func `a credential for RSA is that of an independent program`() throws {
        let key = try HardwareCertificate(AttestationVectors.bytes("ek.rsa2048-L1.certificate"))
            .publicKeyInfo
        guard case .rsa(let modulus, let exponent) = CertificateKey(publicKeyInfo: key) else {
            Issue.record("the certificate's key is not an RSA key")
            return
        }
        let made = try ProtectedCredential(
            Self.credential, modulus: modulus, exponent: exponent, name: Self.tpmName(),
            seed: SymmetricKey(data: Data(0..<32)))
        #expect(
            made.blob
                == Data(
                    hex:
                        "0020753768ed2f09d744aba1a1137cbb658fd0d11a8332a4c3f7455c8e8d71aaff67a91e067818571d4172b57f605834"
                        + "a5311f92e6d8553bef0ac8f463e6bad81df642f4"))
        #expect(made.encryptedSeed.count == 256)
        // The encryption of the seed is randomized.
        let again = try ProtectedCredential(
            Self.credential, modulus: modulus, exponent: exponent, name: Self.tpmName(),
            seed: SymmetricKey(data: Data(0..<32)))
        #expect(again.blob == made.blob)
        #expect(again.encryptedSeed != made.encryptedSeed)
    }

    @Test func `RSA keys of another size are refused with the reason`() throws {
        for count in [255, 257, 384, 512] {
            let error = #expect(throws: AttestationError.self) {
                try ProtectedCredential(
                    Self.credential,
                    for: .rsa(
                        modulus: Data(repeating: 0xf1, count: count), exponent: Data([1, 0, 1])),
                    name: Self.tpmName())
            }
            #expect(error?.code == .wrongEndorsement)
            #expect(
                error?.detail
                    == "RSA endorsement keys of other sizes than 2048 bits are not supported")
        }
    }

    @Test func `each credential has a new seed`() throws {
        let key = P256.Signing.PrivateKey().publicKey
        let first = try ProtectedCredential(Self.credential, for: .p256(key), name: Self.tpmName())
        let second = try ProtectedCredential(Self.credential, for: .p256(key), name: Self.tpmName())
        #expect(first.encryptedSeed != second.encryptedSeed)
        #expect(first.blob != second.blob)
    }
}
