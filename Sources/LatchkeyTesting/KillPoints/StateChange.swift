/// The changes of what is stored that are killed at their points (``KillPoints``), and how many points of each are
/// visited where not all are. Together they are at least ``minimum``.
public enum StateChange: String, Sendable, CaseIterable {
    /// How many points a run of the tests visits at least.
    public static let minimum = 500

    case vaultStore = "vault store"
    case vaultStoreGated = "vault store --biometrics"
    case vaultUpdate = "vault update"
    case vaultUpdateGated = "vault update, gated"
    case vaultUpgrade = "vault upgrade"
    case vaultDowngrade = "vault downgrade"
    case vaultReset = "vault reset"
    case pinChange = "pin change"
    case enable
    case authenticate
    case disable
    case logout = "logout --keep-biometric"
    case credentialAdd = "credential add"
    case credentialAddGated = "credential add --policy pin"
    case credentialRefresh = "credential refresh"
    case credentialRevoke = "credential revoke"
    case credentialRemove = "credential remove"
    case lockerEnrolment = "locker start, first"
    case lockerStart = "locker start --level easy"
    case easyAccessEnable = "locker easy-access enable"
    case easyAccessChange = "locker easy-access change"
    case easyAccessDisable = "locker easy-access disable"
    case lockerDestroy = "locker end --mode destroy"
    case brokerStart = "latchkey-presenced's first start"
    case brokerPIN = "room for a user's PIN"
    case brokerPINReset = "a PIN's count begun anew"
    case brokerEnrolment = "a user's first fingers"
    case brokerEnrolmentChange = "a user's other fingers"

    /// How many points to visit; the change has at least so many.
    public var share: Int {
        switch self {
        case .pinChange, .enable, .authenticate: 40
        case .disable, .brokerStart: 30
        case .credentialRefresh, .lockerEnrolment: 25
        case .vaultUpgrade, .vaultDowngrade, .brokerPIN, .brokerEnrolment, .brokerEnrolmentChange: 20
        case .brokerPINReset, .lockerStart, .easyAccessEnable, .easyAccessChange, .easyAccessDisable, .lockerDestroy: 15
        default: 12
        }
    }
}
