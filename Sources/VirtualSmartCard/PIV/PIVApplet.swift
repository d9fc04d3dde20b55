internal import FoundationEssentials

/// The PIV application of a YubiKey (SP 800-73-4 with Yubico's additions), as a function of commands.
///
/// A command goes in, a response comes out, and nothing else happens: no I/O, no waiting; the clock and the randomness
/// come through ``CardEnvironment``. A key that wants to be touched makes the applet say so and leave the waiting to
/// its host:
///
/// ```swift
/// switch card.respond(to: command) {
/// case .response(let bytes): send(bytes)
/// case .touchWanted: send(card.finish(touched: waitForTouch()))
/// }
/// ```
///
/// It has keys on P-256 and P-384 in all slots; RSA is refused as an unknown algorithm. Keys, PINs and objects live in
/// memory and protect nothing.
public struct PIVApplet: Sendable {
    /// What comes of a command.
    public enum Reply: Hashable, Sendable {
        /// The response with its status word, at most 65538 bytes.
        case response([UInt8])
        /// The command is allowed as soon as somebody touches the key: call ``PIVApplet/finish(touched:)``.
        case touchWanted
    }

    /// What a permitted command comes to.
    enum Outcome {
        case data([UInt8])
        case touchWanted(PrivateKeyOperation)

        static let done = Outcome.data([])
    }

    /// What it is like.
    public let profile: CardProfile

    let environment: CardEnvironment
    let authority: AttestationAuthority
    var pin = CountedSecret(CardProfile.defaultPIN)
    var puk = CountedSecret(CardProfile.defaultPUK)
    var managementKey: ManagementKey
    var keys: [KeySlot: SlotKey] = [:]
    /// The data objects by their tags, without the envelope 53.
    var objects: [[UInt8]: [UInt8]] = [:]
    var session = PIVSession()
    /// When the card was last touched, in seconds since 2001.
    var lastTouch: Double?
    var forcedStatus: [KeySlot: StatusWord] = [:]

    /// A card as it leaves the factory.
    ///
    /// - Parameter authority: Who vouches for the card's attestations.
    public init(
        profile: CardProfile = CardProfile(), authority: AttestationAuthority, environment: CardEnvironment = .system
    ) {
        self.profile = profile
        self.authority = authority
        self.environment = environment
        managementKey = ManagementKey(factory: profile.managementKeyAlgorithm)
        installAttestationKey()
    }

    /// Takes the power away and gives it back: nothing is selected, verified or begun.
    public mutating func powerCycle() {
        session = PIVSession()
    }

    /// The keys' public points by slot: 04 and both coordinates.
    package var publicPoints: [KeySlot: [UInt8]] { keys.mapValues(\.key.publicPoint) }

    /// Removes all keys and data objects, but for the attestation key and its certificate. PIN, PUK and management key
    /// stay.
    package mutating func removeKeys() {
        keys = keys.filter { $0.key == .attestation }
        objects = objects.filter { $0.key == KeySlot.attestation.certificateObject }
    }

    /// Makes the next use of the key in `slot` fail with `status`, whatever it is.
    public mutating func failNextUse(of slot: KeySlot, with status: StatusWord) {
        forcedStatus[slot] = status
    }

    /// Answers a command.
    ///
    /// - Parameter bytes: Anything.
    public mutating func respond(to bytes: [UInt8]) -> Reply {
        session.pending = nil
        do throws(StatusWord) {
            let command = try CommandAPDU(bytes)
            if command.instruction == Instruction.getResponse.rawValue {
                return .response(try nextPart(limit: command.responseLimit))
            }
            session.remainder = []
            guard command.baseClass == 0 else { throw .unknownClass }
            guard let data = try assemble(command) else { return .response(StatusWord.success.bytes) }
            switch try perform(command, data) {
            case .data(let result):
                return .response(firstPart(of: result, limit: command.responseLimit))
            case .touchWanted(let operation):
                session.pending = (operation, command.responseLimit)
                return .touchWanted
            }
        } catch {
            return .response(error.bytes)
        }
    }

    /// Answers the command that wanted a touch.
    ///
    /// - Parameter touched: Whether somebody touched the key in time.
    /// - Returns: The response; ``StatusWord/securityStatusNotSatisfied`` without a touch, and
    ///   ``StatusWord/conditionsNotSatisfied`` when no command wants one.
    public mutating func finish(touched: Bool) -> [UInt8] {
        guard let (operation, limit) = session.pending else { return StatusWord.conditionsNotSatisfied.bytes }
        session.pending = nil
        guard touched else { return StatusWord.securityStatusNotSatisfied.bytes }
        lastTouch = environment.now().timeIntervalSinceReferenceDate
        do throws(StatusWord) {
            return firstPart(of: Self.dynamicTemplate([TLV(0x82, try operation())]), limit: limit)
        } catch {
            return error.bytes
        }
    }
}
