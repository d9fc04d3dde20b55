internal import FoundationEssentials
internal import SwiftASN1

extension SealedBox.Header {
    private static let label = Data("Latchkey PKCS#11 seal 2: statement".utf8)

    /// What the token's RSA key signs: a label and the header, which holds the salt, so each box has a statement of its
    /// own. Nothing in it is secret; the signature is.
    ///
    /// - Throws: `malformed` where the header can't be written down.
    func statement() throws(CryptokiError) -> Data {
        var serializer = DER.Serializer()
        do {
            try serializer.serialize(self)
        } catch {
            throw .malformed("C_Sign", "the header of a sealed secret can't be written: \(error)")
        }
        return Self.label + serializer.serializedBytes
    }
}
