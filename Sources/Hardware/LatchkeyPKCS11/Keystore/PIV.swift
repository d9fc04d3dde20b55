internal import FoundationEssentials
public import Latchkey
internal import SwiftASN1
internal import X509

/// A YubiKey's attestation of a key that it generated: a certificate, issued by the card's
/// attestation key (slot f9).
struct PIVAttestation: Hashable, Sendable {
    /// When the card requires the PIN.
    enum PINPolicy: UInt8 {
        case never = 1
        case once = 2
        case always = 3
    }

    /// When the card requires a touch.
    enum TouchPolicy: UInt8 {
        case never = 1
        case always = 2
        /// Once in 15 seconds.
        case cached = 3
    }

    /// The attesting certificate and its issuer's, DER.
    let certificates: [Data]
    /// nil for an unknown value.
    let pin: PINPolicy?
    let touch: TouchPolicy?

    /// The two policies, one byte each: 1.3.6.1.4.1.41482.3.8 (Yubico, PIV attestation).
    private static let policies: ASN1ObjectIdentifier = [1, 3, 6, 1, 4, 1, 41482, 3, 8]

    /// - Throws: If the certificates can't be read, are not for this key, or are not signed by the
    ///   issuer.
    init(of key: PublicKey, certificate: Data, issuer: Data) throws {
        let attesting = try Certificate(derEncoded: Array(certificate))
        let issuing = try Certificate(derEncoded: Array(issuer))
        guard PublicKey(certifiedBy: attesting) == key,
            issuing.publicKey.isValidSignature(attesting.signature, for: attesting)
        else {
            throw ASN1Error.invalidASN1Object(
                reason: "the attestation is not for this key, or not from this card")
        }
        certificates = [certificate, issuer]
        let bytes = attesting.extensions[oid: Self.policies].map { Array($0.value) } ?? []
        pin = bytes.count == 2 ? PINPolicy(rawValue: bytes[0]) : nil
        touch = bytes.count == 2 ? TouchPolicy(rawValue: bytes[1]) : nil
    }

    /// SubjectPublicKeyInfo of the issuer, DER.
    static func issuerKey(of certificate: Data) throws -> Data {
        Data(try Certificate(derEncoded: Array(certificate)).publicKey.derBytes())
    }
}

extension Session {
    /// The `CKA_ID` of the attestation key's certificate, slot f9.
    private static let issuerID = Data([25])

    /// Whether the card has an attestation key, and so attests the keys that it generates.
    func hasAttestationKey() throws(CryptokiError) -> Bool {
        guard profile.family == .ykcs11 else { return false }
        return try !certificates(id: Self.issuerID).isEmpty
    }

    /// Refuses a key that the token could attest and does not: it was imported. ykcs11 reports
    /// `CKA_NEVER_EXTRACTABLE` for imported keys too.
    func checkOrigin(id: Data) throws(CryptokiError) {
        guard try hasAttestationKey() else { return }
        guard try certificates(id: id).contains(where: \.isAttestation) else {
            throw CryptokiError(
                .unsound,
                reason:
                    "the key was imported into the card, which does not attest that it generated it, "
                    + "so a copy of it may exist",
                recovery: "Use a key that was generated on the card.")
        }
    }

    /// The attestation of a key; nil if the token has none. Tokens attest only keys that they
    /// generated.
    ///
    /// - Throws: `unsound` for an attestation that can't be read or does not verify.
    func attestation(of publicKey: PublicKey, id: Data) throws(CryptokiError) -> PIVAttestation? {
        guard profile.family == .ykcs11 else { return nil }
        let own = try certificates(id: id).first(where: \.isAttestation)
        guard let own, let issuer = try certificates(id: Self.issuerID).first else { return nil }
        do {
            return try PIVAttestation(of: publicKey, certificate: own.der, issuer: issuer.der)
        } catch {
            throw CryptokiError(
                .unsound, reason: "the attestation of the key is not valid: \(error)")
        }
    }
}

extension PKCS11Keystore {
    public func isAttestable(_ key: HardwareKey) -> Bool {
        (try? TokenKeyBlob.of(key))?.attestation.count == 2
    }

    /// Returns a YubiKey's attestation of a key that it generated, in the format
    /// `KeyAttestation.piv`. The certificate was read when the key was created or adopted, and is
    /// stored with it; the card is not used.
    ///
    /// - Throws: `KeystoreError`; `unsupported` for a key without an attestation.
    public func attest(
        _ key: HardwareKey, for request: AttestationRequest,
        authorizedBy presence: (any PresenceAuthority)?
    ) async throws(KeystoreError) -> KeyAttestation {
        do throws(KeystoreError) {
            try request.checkChallenge()
            let blob = try TokenKeyBlob.of(key)
            guard blob.attestation.count == 2 else {
                throw .unsupported(
                    "the token returned no attestation for this key",
                    recovery: "YubiKeys attest keys that they generated, through Yubico's module.")
            }
            do {
                return KeyAttestation(
                    format: KeyAttestation.piv, statement: blob.attestation[0], signature: Data(),
                    publicArea: key.publicKey.x963Representation,
                    attestationKey: try PIVAttestation.issuerKey(of: blob.attestation[1]),
                    certificates: [blob.attestation[1]])
            } catch {
                throw KeystoreError.damaged("the stored attestation can't be read: \(error)")
            }
        } catch {
            throw error.during("attest a key")
        }
    }
}

/// A slot for a key on a PIV card (NIST SP 800-73-4 part 1 section 3).
public struct PIVSlot: Hashable, Sendable, CustomStringConvertible {
    /// The key reference, for example 0x9a.
    let reference: UInt8

    /// Reads two hexadecimal digits, for example `9a`.
    ///
    /// - Returns: nil for a slot that is not 9a, 9c, 9d, 9e, or 82 to 95.
    public init?(_ text: String) {
        guard text.utf8.count == 2, let number = UInt8(text, radix: 16),
            Self.references.contains(number)
        else {
            return nil
        }
        reference = number
    }

    /// All references in the order of their `CKA_ID`s, as ykcs11 and OpenSC number the slots: 1 =
    /// 9a, 2 = 9c, 3 = 9d, 4 = 9e, 5…24 = 82…95.
    private static let references: [UInt8] = [0x9a, 0x9c, 0x9d, 0x9e] + Array(0x82...0x95)

    private init(known reference: UInt8) { self.reference = reference }

    /// PIV Authentication: requires the PIN once after the card was plugged in.
    package static let authentication = PIVSlot(known: 0x9a)
    /// Digital Signature: requires the PIN for each use.
    package static let signature = PIVSlot(known: 0x9c)
    /// Key Management: requires the PIN once; for opening sealed secrets.
    package static let keyManagement = PIVSlot(known: 0x9d)
    /// Card Authentication: requires no PIN.
    package static let cardAuthentication = PIVSlot(known: 0x9e)

    /// Whether the slot is for retired key management keys, which a card need not have: 82 to 95.
    var isRetired: Bool { reference < 0x9a }

    /// The slot with a `CKA_ID`; nil if no slot has it.
    init?(id: Data) {
        guard id.count == 1, let first = id.first, (1...Self.references.count).contains(Int(first))
        else { return nil }
        reference = Self.references[Int(first) - 1]
    }

    /// `CKA_ID`, one byte.
    var id: Data { Data([UInt8((Self.references.firstIndex(of: reference) ?? 0) + 1)]) }

    /// The slots for signing keys of a policy, in the order in which they are tried.
    static func candidates(for policy: AccessPolicy) -> [PIVSlot] {
        let retired = references.dropFirst(4).map { PIVSlot(known: $0) }
        return switch (policy.requirement, policy.reuseSeconds) {
        case (.none, _): [.cardAuthentication]
        case (_, 0): [.signature, .authentication] + retired
        default: [.authentication] + retired
        }
    }

    /// Two hexadecimal digits, for example `9a`.
    public var description: String { String(reference, radix: 16) }
}

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
