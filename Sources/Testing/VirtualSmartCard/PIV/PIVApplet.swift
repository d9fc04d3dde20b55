internal import FoundationEssentials

/// The PIV application of a YubiKey or of another card (SP 800-73-4 with Yubico's additions).
///
/// It takes the time and random bytes from ``CardEnvironment``. All slots accept keys on P-256 and
/// P-384. A YubiKey refuses RSA as an unknown algorithm. Keys, PINs and objects are in memory,
/// without protection.
package struct PIVApplet: CardApplet {
    /// The card's model and serial number.
    package let profile: CardProfile
    package var transport = CommandTransport()

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
        profile: CardProfile = CardProfile(), authority: AttestationAuthority,
        environment: CardEnvironment = .system
    ) {
        self.profile = profile
        self.authority = authority
        self.environment = environment
        managementKey = ManagementKey(factory: profile.managementKeyAlgorithm)
        if profile.model.hasAllAdditions {
            installAttestationKey()
        } else {
            installCardIdentity()
        }
    }

    package mutating func powerCycle() {
        session = PIVSession()
        transport = CommandTransport()
    }

    package mutating func rememberTouch() {
        lastTouch = environment.now().timeIntervalSinceReferenceDate
    }

    /// The elliptic-curve public keys by slot: 04 and both coordinates.
    package var publicPoints: [KeySlot: [UInt8]] { keys.compactMapValues(\.key.publicPoint) }

    /// Removes all keys and data objects except those of a new card. PIN, PUK and management key
    /// stay.
    package mutating func removeKeys() {
        let kept =
            profile.model.hasAllAdditions
            ? [KeySlot.attestation.certificateObject] : Self.identityObjects
        keys = keys.filter { $0.key == .attestation }
        objects = objects.filter { kept.contains($0.key) }
    }

    /// Makes the next use of the key in `slot` fail with `status`.
    package mutating func failNextUse(of slot: KeySlot, with status: StatusWord) {
        forcedStatus[slot] = status
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
}
