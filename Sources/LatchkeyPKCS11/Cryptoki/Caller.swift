internal import CPKCS11

/// Makes Cryptoki calls on one thread: the only way to a module's functions.
///
/// Each call is told the function's name, has a deadline, and is checked. Nothing is called in a module that hangs.
struct Caller {
    /// How long a call may take.
    enum Patience {
        /// It moves data.
        case data
        /// The token may ask a person in it.
        case person
        /// It starts or ends the module.
        case load
    }

    let module: Module
    let functions: FunctionList
    let watch: CallWatch
    let deadlines: TokenOptions.Deadlines
    /// The epoch of the module within which the calls make sense: a session's handle may name another token's session
    /// in the next one. nil for calls that need no session.
    var epoch: Int?

    /// Calls a function and returns its answer.
    ///
    /// - Parameter body: makes the call; nil where the module has no such function.
    /// - Returns: `CKR_SESSION_HANDLE_INVALID`, without a call, when the module was restarted since ``epoch``.
    /// - Throws: `wedged`, and `returned(.functionNotSupported)` for a function that is not there.
    func answer(
        _ function: String, _ patience: Patience = .data,
        _ body: (UnsafeMutablePointer<CK_FUNCTION_LIST>) -> CK_RV?
    ) throws(CryptokiError) -> ReturnValue {
        // The watch starts after the wait: what another thread's start of the module takes is not this call's fault.
        guard try module.beginCall(patience: deadlines.restart, in: epoch) else { return .sessionHandleInvalid }
        defer { module.endCall() }
        watch.begin(function, within: limit(patience))
        defer { watch.end() }
        guard let value = body(functions.pointer) else {
            throw CryptokiError(
                .returned(.functionNotSupported), function: function, reason: "the module has no such function")
        }
        return ReturnValue(rawValue: value)
    }

    /// Calls a function that has to answer `CKR_OK`.
    func callAsFunction(
        _ function: String, _ patience: Patience = .data,
        _ body: (UnsafeMutablePointer<CK_FUNCTION_LIST>) -> CK_RV?
    ) throws(CryptokiError) {
        let value = try answer(function, patience, body)
        guard value == .ok else { throw CryptokiError(value, from: function) }
    }

    func limit(_ patience: Patience) -> Duration {
        switch patience {
        case .data: deadlines.data
        case .person: deadlines.person
        case .load: deadlines.load
        }
    }
}
