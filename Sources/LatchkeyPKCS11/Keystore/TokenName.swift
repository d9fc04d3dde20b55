internal import FoundationEssentials

/// Which token and which key, in the form in which it is stored: an RFC 7512 URI without a module, since modules move.
struct TokenName: Hashable, Sendable {
    /// The most bytes that a stored URI may have: four fields of at most 32 bytes and an id of 64, all escaped.
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

    /// - Returns: nil unless the text is a URI with all five and nothing else that p11-kit knows.
    init?(_ text: String) {
        guard text.utf8.count <= Self.maximumBytes, let uri = try? TokenURI(text) else { return nil }
        guard let manufacturer = uri.manufacturer, let model = uri.model, let serial = uri.serial,
            let label = uri.label, let id = uri.keyID, (1...64).contains(id.count), uri.modulePath == nil
        else { return nil }
        self.manufacturer = manufacturer
        self.model = model
        self.serial = serial
        self.label = label
        self.id = id
    }

    /// For example `pkcs11:manufacturer=Yubico;model=YubiKey%20YK5;serial=12345678;token=YubiKey%20PIV;id=%02`.
    var uri: String {
        let pairs = [
            ("manufacturer", manufacturer), ("model", model), ("serial", serial), ("token", label),
        ].map { "\($0)=\(Self.escaped($1.utf8))" }
        return "pkcs11:" + (pairs + ["id=\(Self.escaped(id))"]).joined(separator: ";")
    }

    /// The same with the module to load.
    func uri(inModule path: String) -> String { "\(uri)?module-path=\(Self.escaped(path.utf8, keeping: "/"))" }

    /// Whether it is this token. A serial number that says something decides, as labels may change (OpenSC takes a
    /// card's from a certificate); where it says nothing, as on tpm2-pkcs11, the label has to.
    func fits(_ token: TokenInformation) -> Bool {
        guard manufacturer == token.manufacturer, model == token.model, serial == token.serial else { return false }
        return hasSerial || label == token.label
    }

    /// Whether the serial number tells tokens apart.
    var hasSerial: Bool { serial.contains { $0 != "0" && $0 != " " } }

    private static func escaped(_ bytes: some Sequence<UInt8>, keeping plain: Unicode.Scalar? = nil) -> String {
        bytes.map { byte in
            switch byte {
            case _ where plain == Unicode.Scalar(byte): String(Unicode.Scalar(byte))
            case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"):
                String(Unicode.Scalar(byte))
            default: "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
            }
        }.joined()
    }
}
