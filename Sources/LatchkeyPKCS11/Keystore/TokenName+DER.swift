internal import SwiftASN1

/// In DER: the URI as a UTF8String.
extension TokenName: DERImplicitlyTaggable {
    static var defaultIdentifier: ASN1Identifier { .utf8String }

    init(derEncoded node: ASN1Node, withIdentifier identifier: ASN1Identifier) throws {
        let text = String(try ASN1UTF8String(derEncoded: node, withIdentifier: identifier))
        guard let name = TokenName(text) else {
            throw ASN1Error.invalidASN1Object(reason: "no URI of a key on a token")
        }
        self = name
    }

    func serialize(into coder: inout DER.Serializer, withIdentifier identifier: ASN1Identifier) throws {
        try ASN1UTF8String(uri).serialize(into: &coder, withIdentifier: identifier)
    }
}
