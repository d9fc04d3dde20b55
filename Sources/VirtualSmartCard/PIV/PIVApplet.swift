internal import FoundationEssentials

/// The PIV application of a YubiKey (SP 800-73-4 with Yubico's additions), as a function of commands.
///
/// The applet does no I/O and does not wait. It takes the time and random bytes from ``CardEnvironment``. If a key
/// requires a touch, the caller waits for it:
///
/// ```swift
/// switch applet.respond(to: command) {
/// case .response(let bytes): send(bytes)
/// case .touchRequired: send(applet.finish(touched: waitForTouch()))
/// }
/// ```
///
/// All slots accept keys on P-256 and P-384. RSA is refused as an unknown algorithm. Keys, PINs and objects are in
/// memory, without protection.
package struct PIVApplet: Sendable {
    /// The result of a command.
    package enum Reply: Hashable, Sendable {
        /// The response with its status word, at most 65538 bytes.
        case response([UInt8])
        /// The key requires a touch. Wait for it, then call ``PIVApplet/finish(touched:)``.
        case touchRequired
    }

    /// A permitted use of a private key, which may still require a touch. Returns the signature or the shared secret.
    typealias PrivateKeyUse = @Sendable () throws(StatusWord) -> [UInt8]

    /// The result of a permitted command.
    enum Outcome {
        case data([UInt8])
        case touchRequired(PrivateKeyUse)

        static let done = Outcome.data([])
    }

    /// The card's model and serial number.
    package let profile: CardProfile

    let environment: CardEnvironment
    let authority: AttestationAuthority
    var pin = CountedSecret(CardProfile.defaultPIN)
    var puk = CountedSecret(CardProfile.defaultPUK)
    var managementKey: ManagementKey
    var keys: [KeySlot: SlotKey] = [:]
    /// The contents of the data objects by tag, without the enclosing tag 53.
    var objects: [[UInt8]: [UInt8]] = [:]
    var session = PIVSession()
    /// The time of the last touch in seconds since 2001.
    var lastTouch: Double?
    var forcedStatus: [KeySlot: StatusWord] = [:]

    /// Creates an applet in the factory state.
    ///
    /// - Parameter authority: The issuer of the card's attestations.
    package init(
        profile: CardProfile = CardProfile(), authority: AttestationAuthority, environment: CardEnvironment = .system
    ) {
        self.profile = profile
        self.authority = authority
        self.environment = environment
        managementKey = ManagementKey(factory: profile.managementKeyAlgorithm)
        installAttestationKey()
    }

    /// Clears the session, as a loss of power does.
    package mutating func powerCycle() {
        session = PIVSession()
    }

    /// The public keys by slot: 04 and both coordinates.
    package var publicPoints: [KeySlot: [UInt8]] { keys.mapValues(\.key.publicPoint) }

    /// Removes all keys and data objects except the attestation key and its certificate. PIN, PUK and management key
    /// stay.
    package mutating func removeKeys() {
        keys = keys.filter { $0.key == .attestation }
        objects = objects.filter { $0.key == KeySlot.attestation.certificateObject }
    }

    /// Makes the next use of the key in `slot` fail with `status`.
    package mutating func failNextUse(of slot: KeySlot, with status: StatusWord) {
        forcedStatus[slot] = status
    }

    /// Answers a command.
    ///
    /// - Parameter bytes: The command, of any content and length.
    package mutating func respond(to bytes: [UInt8]) -> Reply {
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
            case .touchRequired(let operation):
                session.pending = (operation, command.responseLimit)
                return .touchRequired
            }
        } catch {
            return .response(error.bytes)
        }
    }

    /// Answers the command that required a touch.
    ///
    /// - Parameter touched: Whether the user touched the key in time.
    /// - Returns: The response; ``StatusWord/securityStatusNotSatisfied`` without a touch, and
    ///   ``StatusWord/conditionsNotSatisfied`` if no command requires one.
    package mutating func finish(touched: Bool) -> [UInt8] {
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

/// The state of a card that a loss of power clears.
struct PIVSession {
    /// The selected application.
    enum Application {
        case none
        case piv
        case oneTimePassword
    }

    var application = Application.none
    var isPINVerified = false
    /// Whether the previous command verified the PIN.
    var isPINFresh = false
    var isAdministrator = false
    /// The card's challenge or witness to the host.
    var challenge: [UInt8]?
    /// The instruction of a chained command and the data so far.
    var chain: (instruction: UInt8, data: [UInt8])?
    /// The rest of the response, for GET RESPONSE.
    var remainder: ArraySlice<UInt8> = []
    /// The operation that waits for a touch.
    var pending: (operation: PIVApplet.PrivateKeyUse, responseLimit: Int)?
}
