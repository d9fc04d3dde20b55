internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import SwiftASN1

extension SealedBox.Header {
    private static let label = Data("Latchkey PKCS#11 seal 1: point".utf8)
    /// About every second x coordinate is one of a point: 256 misses in a row don't happen.
    private static let attempts = UInt8.min ... .max

    /// A point on P-256 whose discrete logarithm nobody knows: the first x = SHA-256(label, counter, header) that is on
    /// the curve, with the even y. The header holds the salt, so each box has a point of its own. Nothing here is
    /// secret, and how long it takes tells nothing.
    ///
    /// - Throws: `malformed` where the header can't be written down, or no point is found.
    func point() throws(CryptokiError) -> PublicKey {
        var serializer = DER.Serializer()
        do {
            try serializer.serialize(self)
        } catch {
            throw .malformed("C_DeriveKey", "the header of a sealed secret can't be written: \(error)")
        }
        for counter in Self.attempts {
            let x = SHA256.hash(data: Self.label + [counter] + serializer.serializedBytes)
            guard let point = try? P256.KeyAgreement.PublicKey(compressedRepresentation: [0x02] + x),
                let key = try? PublicKey(x963Representation: point.x963Representation)
            else { continue }
            return key
        }
        throw .malformed("C_DeriveKey", "no point is found for a sealed secret")
    }
}
