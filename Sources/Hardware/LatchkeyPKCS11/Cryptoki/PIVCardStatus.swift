internal import Latchkey

/// The state of a PIV card that its module does not show, read from the card through PC/SC. Needs
/// no PIN.
///
/// Each value is nil if the card does not report it. The commands are Yubico's (GET METADATA, since
/// firmware 5.3) and those of NIST SP 800-73-4; some other cards support them too. On some cards,
/// SELECT ends a login, so the state is read only while no login is kept.
struct PIVCardStatus: Hashable, Sendable {
    /// The algorithm of the management key.
    enum Algorithm: Hashable, Sendable {
        case tripleDES
        case aes
    }

    var managementKeyAlgorithm: Algorithm?
    /// Whether the card stores its management key under the PIN, so that modules accept the PIN in
    /// its place.
    var isManagementKeyProtected: Bool?
    /// 0 if the PUK is blocked.
    var pukAttemptsLeft: Int?

    /// VERIFY without a PIN, which counts no attempt.
    private static let verification: [UInt8] = [0x00, 0x20, 0x00, 0x80]
    private static let selection: [UInt8] = [
        0x00, 0xA4, 0x04, 0x00, 0x09, 0xA0, 0x00, 0x00, 0x03, 0x08, 0x00, 0x00, 0x10, 0x00,
    ]
    /// GET METADATA of the management key (9B) and of the PUK (81).
    private static let managementKeyMetadata: [UInt8] = [0x00, 0xF7, 0x00, 0x9B, 0x00]
    private static let pukMetadata: [UInt8] = [0x00, 0xF7, 0x00, 0x81, 0x00]
    /// GET DATA of Yubico's object 5FFF00 (ADMIN DATA), in which `ykman` records a protected
    /// management key.
    private static let administratorData: [UInt8] = [
        0x00, 0xCB, 0x3F, 0xFF, 0x05, 0x5C, 0x03, 0x5F, 0xFF, 0x00, 0x00,
    ]

    /// Reads the state from the card in a reader.
    ///
    /// - Parameters:
    ///   - reader: Its name, or the first 64 bytes of it, as `C_GetSlotInfo` shows it.
    ///   - limit: How long another program's use of the card may delay the answer.
    /// - Returns: nil if the card cannot be read, for example because another program holds it.
    static func read(inReader reader: String, within limit: Duration) -> PIVCardStatus? {
        let commands = [
            verification, selection, managementKeyMetadata, pukMetadata, administratorData,
        ]
        let responses = PCSCLibrary.responses(in: reader, within: limit) { responses in
            // A program is logged in, and selecting the application would end its login.
            responses.first == [0x90, 0x00] ? nil : commands.dropFirst(responses.count).first
        }
        guard let responses, responses.count == commands.count else { return nil }
        return PIVCardStatus(
            selection: responses[1], key: responses[2], puk: responses[3],
            administration: responses[4])
    }

    /// Reads the responses, each with its status word.
    ///
    /// - Returns: nil if the card has no PIV application.
    init?(selection: [UInt8], key: [UInt8], puk: [UInt8], administration: [UInt8]) {
        guard CardResponse(selection).isSuccess else { return nil }
        managementKeyAlgorithm =
            switch CardResponse(key).field(0x01) {
            case [0x03]?: .tripleDES
            case [0x08]?, [0x0A]?, [0x0C]?: .aes
            default: nil
            }
        if let retries = CardResponse(puk).field(0x06), retries.count == 2 {
            pukAttemptsLeft = Int(retries[1])
        }
        let administration = CardResponse(administration)
        if administration.isAbsent {
            isManagementKeyProtected = false
        } else if let object = administration.field(0x53),
            let fields = CardResponse.field(0x80, in: object)
        {
            // Bit 2 of the flags (Yubico, PIV ADMIN DATA). Without flags the key is not protected.
            let flags = CardResponse.field(0x81, in: fields)
            isManagementKeyProtected =
                flags.map { $0.first.map { $0 & 0x02 != 0 } ?? false } ?? false
        }
    }
}

extension Token {
    /// The state of the token's PIV card; nil if the token is not a PIV card in a reader of this
    /// machine, if a login is kept, or if the card cannot be read.
    func pivCardStatus() async -> PIVCardStatus? {
        let family = module.profile.family
        guard family == .ykcs11 || family == .opensc && information.manufacturer == "piv_II" else {
            return nil
        }
        let answer = try? await withSession {
            [login] (session) throws(CryptokiError) -> PIVCardStatus? in
            guard !login.isKept else { return nil }
            return PIVCardStatus.read(
                inReader: try session.call.slotDescription(session.slot),
                within: session.call.deadlines.data)
        }
        return answer ?? nil
    }
}

/// A response of a card: fields in BER-TLV with tags of one byte, and the status word.
private struct CardResponse {
    private let data: ArraySlice<UInt8>
    private let status: [UInt8]

    init(_ response: [UInt8]) {
        data = response.dropLast(2)
        status = Array(response.suffix(2))
    }

    /// 9000, or 61xx for a response that is read in a second step.
    var isSuccess: Bool { status == [0x90, 0x00] || status.first == 0x61 && status.count == 2 }
    /// 6A82: no such object.
    var isAbsent: Bool { status == [0x6A, 0x82] }

    func field(_ tag: UInt8) -> [UInt8]? {
        status == [0x90, 0x00] ? Self.field(tag, in: Array(data)) : nil
    }

    /// The value of the first field with a tag; nil if there is none or a length exceeds the data.
    static func field(_ tag: UInt8, in data: [UInt8]) -> [UInt8]? {
        var rest = data[...]
        while rest.count >= 2 {
            let found = rest.removeFirst()
            var length = Int(rest.removeFirst())
            if length == 0x81 {
                guard let next = rest.popFirst() else { return nil }
                length = Int(next)
            } else if length > 0x7F {
                return nil
            }
            guard length <= rest.count else { return nil }
            if found == tag { return Array(rest.prefix(length)) }
            rest = rest.dropFirst(length)
        }
        return nil
    }
}
