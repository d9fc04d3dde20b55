import Crypto
import Foundation
import Latchkey
import Testing

struct ECDSASignatureTests {
    @Test func `short numbers are padded and leading zeros dropped`() throws {
        let signature = try #require(
            ECDSASignature(r: [1], s: [0, 0] + Array(repeating: 2, count: 32)))
        #expect(
            signature.rawRepresentation == Data(repeating: 0, count: 31) + [1]
                + Data(repeating: 2, count: 32))
    }

    @Test func `numbers over 32 bytes and wrong lengths are refused`() {
        #expect(ECDSASignature(r: Array(repeating: 1, count: 33), s: [1]) == nil)
        #expect(ECDSASignature(rawRepresentation: Data(count: 63)) == nil)
        #expect(ECDSASignature(rawRepresentation: Data(count: 65)) == nil)
    }

    @Test func `a signature of swift-crypto verifies over its digest and no other`() throws {
        let key = P256.Signing.PrivateKey()
        let message = Data("message".utf8)
        let raw = try key.signature(for: message).rawRepresentation
        let signature = try #require(ECDSASignature(rawRepresentation: raw))
        let publicKey = try PublicKey(x963Representation: key.publicKey.x963Representation)
        #expect(publicKey.isValid(signature, for: MessageDigest(sha256: message)))
        #expect(!publicKey.isValid(signature, for: MessageDigest(sha256: Data("other".utf8))))
        #expect(try signature.derRepresentation.first == 0x30)
    }
}
