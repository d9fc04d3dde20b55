internal import FoundationEssentials
internal import SwiftASN1

/// The stored name of a token and a key: an RFC 7512 URI without a module, since the path of a
/// module can change.
struct TokenName: Hashable, Sendable {
    /// The maximum length of a stored URI: four fields of at most 32 bytes and an ID of 64, all
    /// escaped.
    static let maximumBytes = 1024

    let manufacturer: String
    let model: String
    let serial: String
    let label: String
    /// `CKA_ID`, 1 to 64 bytes.
    let id: Data

    init(_ token: TokenInformation, id: Data) {
        manufacturer = token.manufacturer
        model = token.model
        serial = token.serial
        label = token.label
        self.id = id
    }

    /// - Returns: nil unless the text is a URI with these five attributes and no other.
    init?(_ text: String) {
        guard text.utf8.count <= Self.maximumBytes, let uri = try? TokenURI(text) else {
            return nil
        }
        guard let manufacturer = uri.manufacturer, let model = uri.model, let serial = uri.serial,
            let label = uri.label, let id = uri.keyID, (1...64).contains(id.count),
            uri.modulePath == nil
        else { return nil }
        self.manufacturer = manufacturer
        self.model = model
        self.serial = serial
        self.label = label
        self.id = id
    }

    /// For example
    /// `pkcs11:manufacturer=Yubico;model=YubiKey%20YK5;serial=12345678;token=YubiKey%20PIV;id=%02`.
    var uri: String {
        let pairs = [
            ("manufacturer", manufacturer), ("model", model), ("serial", serial), ("token", label),
        ].map { "\($0)=\(Self.escaped($1.utf8))" }
        return "pkcs11:" + (pairs + ["id=\(Self.escaped(id))"]).joined(separator: ";")
    }

    /// The URI with the module to load.
    func uri(inModule path: String) -> String {
        "\(uri)?module-path=\(Self.escaped(path.utf8, keeping: "/"))"
    }

    /// Whether the name matches a token. A serial number decides, since labels may change (OpenSC
    /// takes a card's label from a certificate). Without one, as on tpm2-pkcs11, and on a card with
    /// a slot for each PIN, the label decides.
    func fits(_ token: Token) -> Bool {
        isSameDevice(token.information)
            && (!token.identity.sharesSerial || label == token.information.label)
    }

    /// Whether the name matches a token, or another slot of the same card.
    func isSameDevice(_ found: TokenInformation) -> Bool {
        guard manufacturer == found.manufacturer, model == found.model, serial == found.serial
        else { return false }
        return hasSerial || label == found.label
    }

    /// The module that reported the name, if the manufacturer shows it: ykcs11 and OpenSC report a
    /// fixed text for PIV cards.
    var module: (family: ModuleProfile.Family, name: String)? {
        if manufacturer.hasPrefix("Yubico") { return (.ykcs11, "ykcs11") }
        return manufacturer == "piv_II" ? (.opensc, "OpenSC") : nil
    }

    /// Whether the serial number identifies the token.
    var hasSerial: Bool { serial.contains { $0 != "0" && $0 != " " } }

    private static func escaped(_ bytes: some Sequence<UInt8>, keeping plain: Unicode.Scalar? = nil)
        -> String
    {
        bytes.map { byte in
            switch byte {
            case _ where plain == Unicode.Scalar(byte): String(Unicode.Scalar(byte))
            case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."),
                UInt8(ascii: "_"):
                String(Unicode.Scalar(byte))
            default: "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
            }
        }.joined()
    }
}

/// In DER: the URI as a UTF8String.
extension TokenName: DERImplicitlyTaggable {
    static var defaultIdentifier: ASN1Identifier { .utf8String }

    init(derEncoded node: ASN1Node, withIdentifier identifier: ASN1Identifier) throws {
        let text = String(try ASN1UTF8String(derEncoded: node, withIdentifier: identifier))
        guard let name = TokenName(text) else {
            throw ASN1Error.invalidASN1Object(reason: "not the URI of a key on a token")
        }
        self = name
    }

    func serialize(into coder: inout DER.Serializer, withIdentifier identifier: ASN1Identifier)
        throws
    {
        try ASN1UTF8String(uri).serialize(into: &coder, withIdentifier: identifier)
    }
}
