/// Whether calls may be made into a module.
struct ModuleState {
    enum Call {
        case proceed, wait
        /// The module was restarted since the epoch that the call belongs to.
        case outdated
        /// The module hangs in that function.
        case refuse(function: String)
    }

    enum Initialization {
        case proceed, wait
        /// Somebody else did it.
        case done
    }

    private(set) var epoch = 1
    /// Whether its process was killed and it must be initialised before it is of use.
    var needsInitialization = false
    private var hanging: String?
    private var calls = 0
    private var isInitializing = false

    mutating func beginCall(in known: Int?) -> Call {
        if let hanging { return .refuse(function: hanging) }
        if isInitializing { return .wait }
        if let known, known != epoch { return .outdated }
        calls += 1
        return .proceed
    }

    mutating func endCall() { calls -= 1 }

    mutating func wedge(_ function: String) { hanging = hanging ?? function }

    mutating func beginInitialization(after known: Int) -> Initialization {
        if isInitializing { return .wait }
        if epoch != known { return .done }
        if calls > 0 { return .wait }
        isInitializing = true
        return .proceed
    }

    mutating func endInitialization() { isInitializing = false }

    /// What was obtained from the module is gone, and it has not been initialised again.
    mutating func endEpoch() {
        epoch += 1
        needsInitialization = true
    }

    mutating func beginEpoch() {
        epoch += 1
        needsInitialization = false
    }
}
