/// The changes of what is stored that are killed at their points (``KillPoints``), and how many points of each are
/// visited where not all are. Together they are at least ``minimum``.
package enum StateChange: String, Sendable, CaseIterable {
    /// How many points a run of the tests visits at least.
    package static let minimum = 500

    /// `latchkey vault store`.
    case vaultStore = "vault store"
    /// `latchkey vault store --biometrics`.
    case vaultStoreGated = "vault store --biometrics"
    /// `latchkey vault update`.
    case vaultUpdate = "vault update"
    /// `latchkey vault update`, gated.
    case vaultUpdateGated = "vault update, gated"
    /// `latchkey vault upgrade`.
    case vaultUpgrade = "vault upgrade"
    /// `latchkey vault downgrade`.
    case vaultDowngrade = "vault downgrade"
    /// `latchkey vault reset`.
    case vaultReset = "vault reset"
    /// `latchkey pin change`.
    case pinChange = "pin change"
    /// `latchkey enable`.
    case enable
    /// `latchkey authenticate`.
    case authenticate
    /// `latchkey disable`.
    case disable
    /// `latchkey logout --keep-biometric`.
    case logout = "logout --keep-biometric"
    /// `latchkey credential add`.
    case credentialAdd = "credential add"
    /// `latchkey credential add --policy pin`.
    case credentialAddGated = "credential add --policy pin"
    /// `latchkey credential refresh`.
    case credentialRefresh = "credential refresh"
    /// `latchkey credential revoke`.
    case credentialRevoke = "credential revoke"
    /// `latchkey credential remove`.
    case credentialRemove = "credential remove"
    /// `latchkey locker start`, first.
    case lockerEnrolment = "locker start, first"
    /// `latchkey locker start --level easy`.
    case lockerStart = "locker start --level easy"
    /// `latchkey locker easy-access enable`.
    case easyAccessEnable = "locker easy-access enable"
    /// `latchkey locker easy-access change`.
    case easyAccessChange = "locker easy-access change"
    /// `latchkey locker easy-access disable`.
    case easyAccessDisable = "locker easy-access disable"
    /// `latchkey locker end --mode destroy`.
    case lockerDestroy = "locker end --mode destroy"
    /// `latchkey-presenced`'s first start.
    case brokerStart = "latchkey-presenced's first start"
    /// Room for a user's PIN.
    case brokerPIN = "room for a user's PIN"
    /// A PIN's count begun anew.
    case brokerPINReset = "a PIN's count begun anew"
    /// A user's first fingers.
    case brokerEnrolment = "a user's first fingers"
    /// A user's other fingers.
    case brokerEnrolmentChange = "a user's other fingers"

    /// How many points to visit; the change has at least so many.
    package var share: Int {
        switch self {
        case .pinChange, .enable, .authenticate: 40
        case .disable, .brokerStart: 30
        case .credentialRefresh, .lockerEnrolment: 25
        case .vaultUpgrade, .vaultDowngrade, .brokerPIN, .brokerEnrolment: 20
        case .lockerStart, .easyAccessEnable, .easyAccessChange, .easyAccessDisable, .lockerDestroy: 15
        default: 12
        }
    }
}
