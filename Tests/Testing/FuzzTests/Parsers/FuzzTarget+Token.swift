import Crypto
import FoundationEssentials
import SwiftASN1
import X509

@testable import Latchkey
@testable import LatchkeyPKCS11

extension FuzzTarget {
    /// Stored blobs of keys and secrets on tokens. The digest at the end is corrected.
    static let tokenKeys = FuzzTarget("token-keys") { (input) throws(Contradiction) in
        let digested = Data(input) + Data(SHA256.hash(data: input))
        if let key = try? DigestedStructure.parsed(digested, as: TokenKeyBlob.self) {
            let again = try? TokenKeyBlob(derEncoded: serialized(key))
            try expect(again == key, "a stored key is written as something else")
        }
        if let box = try? DigestedStructure.parsed(digested, as: SealedBox.self) {
            let again = try? SealedBox(derEncoded: serialized(box))
            try expect(again == box, "a sealed secret is written as something else")
            _ = try? box.header.point()
            _ = try? box.open(sharedSecret: SecretBytes([UInt8](repeating: 1, count: 32)))
        }
    }

    /// Certificates on tokens and cards.
    static let certificates = FuzzTarget("certificates") { (input) throws(Contradiction) in
        let der = Data(input)
        let certificate = TokenCertificate(label: "", der: der)
        _ = try? PIVAttestation.issuerKey(of: der)
        guard let key = certificate.publicKey else { return }
        _ = try? PIVAttestation(of: key, certificate: der, issuer: der)
    }

    /// PKCS#11 URIs and p11-kit's module files.
    static let tokenURIs = FuzzTarget("token-uris") { (input) throws(Contradiction) in
        let text = String(decoding: input, as: UTF8.self)
        if let uri = try? TokenURI(text) {
            let again = try? TokenURI(uri.string)
            try expect(again == uri, "a token's URI is written as something else")
            _ = uri.namesKey
        }
        if let name = TokenName(text) {
            try expect(TokenName(name.uri) == name, "a token's name is written as something else")
        }
    }

    /// Attributes of objects, and the texts of a token and its slot.
    static let tokenAttributes = FuzzTarget("token-attributes") { (input) throws(Contradiction) in
        _ = try? ECPoint.publicKey(input)
        let exponent = input.suffix(3)
        _ = try? RSAPublicKey(modulus: Array(input.dropLast(3)), exponent: Array(exponent))
        _ = input.withUnsafeBytes { String(blankPadded: $0) }
        let line = String(oneLine: String(decoding: input, as: UTF8.self), limit: 40)
        try expect(line.unicodeScalars.count <= 40, "a line is too long")
        _ = String(quoted: String(decoding: input, as: UTF8.self))
        _ = PIVCardStatus(selection: [0x90, 0x00], key: input, puk: input, administration: input)
    }

    static func serialized(_ value: some DERSerializable) throws -> [UInt8] {
        var serializer = DER.Serializer()
        try serializer.serialize(value)
        return serializer.serializedBytes
    }
}
