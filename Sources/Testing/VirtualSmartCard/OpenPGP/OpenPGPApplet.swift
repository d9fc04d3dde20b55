/// The OpenPGP application 3.4, as far as OpenSC's driver and keys on P-256 need it.
///
/// Section numbers refer to "Functional Specification of the OpenPGP application on ISO Smart Card
/// Operating Systems", version 3.4.1. Where the specification leaves a choice, the applet behaves
/// like the CanoKey firmware. A new card has keys for signatures and authentication. It has no
/// resetting code, key import, key derivation or user interaction flag.
package struct OpenPGPApplet: CardApplet {
    /// The card's model and serial number.
    package let profile: CardProfile
    package var transport = CommandTransport()

    let environment: CardEnvironment
    /// PW1, with the references 81 and 82.
    var userPassword = CountedSecret(CardProfile.defaultPIN, format: .password(shortest: 6))
    /// PW3, with the reference 83.
    var administratorPassword = CountedSecret(
        CardProfile.defaultPUK, format: .password(shortest: 8))
    /// Whether PW1 is valid for several signatures (section 4.4.1, tag C4).
    var allowsSeveralSignatures = false
    var signatureCount = 0
    var keys: [OpenPGPKey: EllipticCurveKey] = [:]
    /// The data objects that PUT DATA replaces, by tag.
    var objects = OpenPGPApplet.factoryObjects
    /// The certificates by occurrence: for authentication, decryption and signatures (section
    /// 7.2.5).
    var certificates = [[UInt8]](repeating: [], count: OpenPGPKey.allCases.count)
    var session = OpenPGPSession()

    /// Creates an applet with new keys for signatures and authentication.
    package init(profile: CardProfile = .openPGP(), environment: CardEnvironment = .system) {
        self.profile = profile
        self.environment = environment
        for key in [OpenPGPKey.signature, .authentication] {
            guard let made = try? EllipticCurveKey.generate(.p256, random: environment.randomBytes)
            else { continue }
            keys[key] = made
            objects[key.fingerprintObject] = key.fingerprint(of: made)
        }
    }

    package mutating func powerCycle() {
        session = OpenPGPSession()
        transport = CommandTransport()
    }

    package mutating func rememberTouch() {}

    package mutating func perform(_ command: CommandAPDU, _ data: [UInt8]) throws(StatusWord)
        -> CommandOutcome
    {
        let (instruction, p1, p2) = (
            OpenPGPInstruction(rawValue: command.instruction), command.p1, command.p2
        )
        guard session.isSelected || instruction == .select else { throw .unknownInstruction }
        let tag = UInt16(p1) << 8 | UInt16(p2)
        switch instruction {
        case .select: try select(p1: p1, data)
        case .verify: try verify(p1: p1, p2: p2, data)
        case .changeReferenceData: try changeReferenceData(p1: p1, p2: p2, data)
        case .resetRetryCounter: try resetRetryCounter(p1: p1, p2: p2, data)
        case .getData: return .data(try object(tag))
        case .putData: try replaceObject(tag, with: data)
        case .selectData: try selectCertificate(p1: p1, p2: p2, data)
        case .generateKeyPair: return .data(try publicKey(p1: p1, data))
        case .performSecurityOperation where tag == 0x9E9A: return .data(try sign(data))
        case .performSecurityOperation where tag == 0x8086: return .data(try decipher(data))
        case .internalAuthenticate where tag == 0: return .data(try authenticate(data))
        case .performSecurityOperation, .internalAuthenticate: throw .incorrectParameters
        case nil: throw .unknownInstruction
        }
        return .done
    }

    /// SELECT by the application's identifier or its beginning (section 7.2.1). Keeps the session
    /// of the current application.
    private mutating func select(p1: UInt8, _ data: [UInt8]) throws(StatusWord) {
        guard p1 == 0x04, data.count >= 6, identifier.starts(with: data) else { throw .notFound }
        session.isSelected = true
    }
}

/// The instructions of section 7.1.
private enum OpenPGPInstruction: UInt8 {
    case verify = 0x20
    case changeReferenceData = 0x24
    case performSecurityOperation = 0x2A
    case resetRetryCounter = 0x2C
    case generateKeyPair = 0x47
    case internalAuthenticate = 0x88
    case select = 0xA4
    case selectData = 0xA5
    case getData = 0xCA
    case putData = 0xDA
}

/// The state of a card that a loss of power clears.
struct OpenPGPSession {
    var isSelected = false
    /// The passwords that were verified.
    var verified: Set<OpenPGPPassword> = []
    /// The occurrence of the certificate that the next command reads or writes.
    var certificate = 0
}
