internal import CPKCS11
internal import FoundationEssentials
internal import Latchkey
internal import Synchronization

/// The session that a token's thread keeps open (`CKF_RW_SESSION | CKF_SERIAL_SESSION`).
///
/// ``Token/withSession(_:)`` passes it to its closure, on the token's thread only: not
/// Sendable. Every method is one or a few Cryptoki calls, each with a deadline.
final class Session {
    let profile: ModuleProfile
    let call: Caller
    let slot: UInt
    /// Changes only in ``reopen(keepingLogin:)``.
    private(set) var handle: UInt
    /// The token's answer to the request for a session that can write; `ok` if it is one.
    private(set) var writing = ReturnValue.ok
    /// A cache of keys until logout: finding a key takes longer the more keys the token has.
    var knownKeys: [Data: TokenKey] = [:]
    /// Whether a proof was sent and the token may have counted it as wrong. It must not be sent
    /// again without a new prompt.
    private(set) var hasUnsettledProof = false
    /// The proof of the user that the token checked and accepted in this attempt; nil after a logout.
    private(set) var checkedProof: LoginProof?
    /// Whether the token accepted a proof in this attempt, and would accept it again without a new
    /// action of the user.
    private(set) var hasRepeatableLogin = false
    /// Whether an earlier attempt of the operation failed.
    private(set) var isRepeated = false
    private var mayBeStale = false
    private let thread: TokenThread
    private let noteProof: () -> Void

    /// Opens a session; a read-only one if the token refuses others.
    ///
    /// - Parameter noteProof: Called before each proof is sent to the token.
    init(slot: UInt, call: Caller, thread: TokenThread, noteProof: @escaping () -> Void)
        throws(CryptokiError)
    {
        self.slot = slot
        self.call = call
        self.thread = thread
        self.noteProof = noteProof
        profile = call.module.profile
        (handle, writing) = try Self.open(slot, call)
    }

    private static func open(
        _ slot: UInt, _ call: Caller
    ) throws(CryptokiError) -> (handle: UInt, writing: ReturnValue) {
        var session: CK_SESSION_HANDLE = 0
        let function = "C_OpenSession"
        let serial = UInt(CKF_SERIAL_SESSION)
        let value = try call.answer(function) {
            $0.pointee.C_OpenSession?(slot, serial | UInt(CKF_RW_SESSION), nil, nil, &session)
        }
        if value == .ok { return (session, value) }
        if [.tokenWriteProtected, .sessionReadOnly, .sessionCount].contains(value) {
            let readOnly = try call.answer(function) {
                $0.pointee.C_OpenSession?(slot, serial, nil, nil, &session)
            }
            if readOnly == .ok { return (session, value) }
        }
        throw CryptokiError(value, from: function)
    }

    /// Replaces the session by a new one, in which no operation is active.
    ///
    /// - Parameter keepsLogin: Whether the login stays. It ends with the last session.
    func reopen(keepingLogin keepsLogin: Bool) throws(CryptokiError) {
        knownKeys = [:]
        if !keepsLogin {
            checkedProof = nil
            close()
        }
        let new = try Self.open(slot, call)
        if keepsLogin { close() }
        (handle, writing) = new
    }

    /// Closes the session. Ignores errors, since there is nothing left to do.
    func close() {
        _ = try? call.answer("C_CloseSession") { $0.pointee.C_CloseSession?(handle) }
    }

    /// Reads the token's current flags.
    ///
    /// Do not call it between the proof and the signature of an always-authenticating key: on a PIV
    /// card the call may consume the proof.
    func tokenInformation() throws(CryptokiError) -> TokenInformation {
        try call.tokenInformation(slot: slot)
    }

    /// Whether the token may have a mechanism: the module does not deny it (`C_GetMechanismInfo`).
    /// If the module does not answer the question, the use of the mechanism decides.
    func supports(_ mechanism: Mechanism) throws(CryptokiError) -> Bool {
        var info = CK_MECHANISM_INFO()
        let value = try call.optionalAnswer("C_GetMechanismInfo") {
            $0.pointee.C_GetMechanismInfo?(slot, mechanism.rawValue, &info)
        }
        return value != .mechanismInvalid
    }

    /// Begins an attempt of an operation.
    func beginAttempt(_ recovery: RecoveryPolicy) {
        isRepeated = recovery.isRepeating
        mayBeStale = recovery.mayBeStale
        hasUnsettledProof = false
        hasRepeatableLogin = false
        checkedProof = nil
    }

    /// Ends an attempt. The session keeps no proof.
    func endAttempt() { checkedProof = nil }

    /// Throws `stale` if the token's state is not the expected one and the module may show an old
    /// state. ``RecoveryPolicy`` then repeats the operation with the current state, which counts.
    func confirm(_ isExpected: Bool) throws(CryptokiError) {
        guard isExpected || !mayBeStale else {
            throw CryptokiError(.stale, reason: "the module may show an old state of the token")
        }
    }

    /// Throws `cancelled` if the task that waits for this work was cancelled. Operations that take
    /// long or change the token call it before they start; cleanup does not.
    func checkCancellation() throws(CryptokiError) {
        if thread.isWorkAbandoned { throw .cancelled }
    }
}

extension Session {
    /// The role that is logged in, as the token reports (`C_GetSessionInfo`); nil if none, or if
    /// the module does not report it.
    func loggedInRole() throws(CryptokiError) -> LoginRole? {
        var info = CK_SESSION_INFO()
        let value = try call.optionalAnswer("C_GetSessionInfo") {
            $0.pointee.C_GetSessionInfo?(handle, &info)
        }
        guard value != .functionNotSupported else { return nil }
        guard value == .ok else { throw CryptokiError(value, from: "C_GetSessionInfo") }
        // CKS_RO_USER_FUNCTIONS, CKS_RW_USER_FUNCTIONS and CKS_RW_SO_FUNCTIONS (PKCS#11 2.40
        // section 3.5).
        return switch info.state {
        case 1, 3: .user
        case 4: .securityOfficer
        default: nil
        }
    }

    /// Logs in. Logs out first if there is a login, so that the token checks the proof and never
    /// accepts a wrong one because of an earlier login. Use ``loggedInRole()`` to reuse a login.
    ///
    /// - Throws: `returned(.pinIncorrect)`, `.pinLocked` …; ``RecoveryPolicy`` never
    ///   repeats a refused login.
    func login(_ role: LoginRole, with proof: LoginProof) throws(CryptokiError) {
        try checkCancellation()
        if try loggedInRole() != nil { try logout() }
        do throws(CryptokiError) {
            do throws(CryptokiError) {
                try sendProof(role.rawValue, proof)
            } catch {
                // The token did not check the proof: a login that was not ended before.
                guard error.returnValue == .userAlreadyLoggedIn else { throw error }
                try reopen(keepingLogin: false)
                try sendProof(role.rawValue, proof)
            }
        } catch {
            // OpenSC's answer for a card that reports a wrong PIN without the attempts left (status
            // word 6982).
            guard error.returnValue == .userNotLoggedIn, profile.family == .opensc, role == .user
            else { throw error }
            throw CryptokiError(
                .returned(.pinIncorrect), function: error.function, reason: error.reason)
        }
        if role == .user { checkedProof = proof }
    }

    /// Logs out and forgets the handles of private objects. Not an error if there is no login.
    func logout() throws(CryptokiError) {
        knownKeys = [:]
        checkedProof = nil
        let value = try call.optionalAnswer("C_Logout") { $0.pointee.C_Logout?(handle) }
        switch value {
        case .ok, .userNotLoggedIn: return
        default:
            // A login ends with its last session.
            try reopen(keepingLogin: false)
            if value != .functionNotSupported, try loggedInRole() != nil {
                throw CryptokiError(value, from: "C_Logout")
            }
        }
    }

    /// Changes the PIN of the logged-in role, or of the user without a login (`C_SetPIN`).
    func setPIN(from old: LoginProof, to new: LoginProof) throws(CryptokiError) {
        try checkCancellation()
        try old.withBytes { oldBytes, oldCount throws(CryptokiError) in
            try new.withBytes { newBytes, newCount throws(CryptokiError) in
                try callWithProof("C_SetPIN", .person) {
                    $0.pointee.C_SetPIN?(handle, oldBytes, oldCount, newBytes, newCount)
                }
            }
        }
    }

    /// Sets the user's PIN as the security officer, who must be logged in (`C_InitPIN`).
    func initializePIN(_ new: LoginProof) throws(CryptokiError) {
        try checkCancellation()
        try new.withBytes { bytes, count throws(CryptokiError) in
            try call("C_InitPIN", .person) { $0.pointee.C_InitPIN?(handle, bytes, count) }
        }
    }

    /// `C_Login`, also for `CKU_CONTEXT_SPECIFIC`.
    func sendProof(_ userType: UInt, _ proof: LoginProof) throws(CryptokiError) {
        try proof.withBytes { bytes, count throws(CryptokiError) in
            // A PIN can be the request for a fingerprint.
            let isRequest =
                profile.fingerprintPIN.map {
                    UnsafeBufferPointer(start: bytes, count: Int(count)).elementsEqual($0.utf8)
                } ?? false
            let needsUser = proof.isVerifiedByToken || isRequest
            try callWithProof("C_Login", needsUser ? .person : .proof) {
                $0.pointee.C_Login?(handle, userType, bytes, count)
            }
            hasRepeatableLogin = !needsUser
        }
    }

    /// Makes a call that contains a proof. After any answer except success the proof may have been
    /// counted as wrong, so it is not sent again: a token that answers "device error" may have
    /// counted a wrong PIN before. The token can't have checked the proof only if the session or
    /// the module was lost before the call.
    private func callWithProof(
        _ function: String, _ kind: Caller.Kind,
        _ body: (UnsafeMutablePointer<CK_FUNCTION_LIST>) -> CK_RV?
    ) throws(CryptokiError) {
        noteProof()
        hasUnsettledProof = true
        let value = try call.answer(function, kind, body)
        let unchecked: [ReturnValue] = [
            .ok, .sessionHandleInvalid, .cryptokiNotInitialized, .userAlreadyLoggedIn,
        ]
        hasUnsettledProof = !unchecked.contains(value) && !profile.failsToRead(value)
        guard value == .ok else { throw CryptokiError(value, from: function) }
    }
}
