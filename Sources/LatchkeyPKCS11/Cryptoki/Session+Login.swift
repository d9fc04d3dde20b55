internal import CPKCS11
internal import Latchkey

extension Session {
    /// Who is logged in, as the token says.
    func loginState() throws(CryptokiError) -> LoginState {
        var info = CK_SESSION_INFO()
        try call("C_GetSessionInfo") { $0.pointee.C_GetSessionInfo?(handle, &info) }
        // CKS_RO_USER_FUNCTIONS, CKS_RW_USER_FUNCTIONS and CKS_RW_SO_FUNCTIONS (PKCS#11 2.40 section 3.5).
        return switch info.state {
        case 1, 3: .user
        case 4: .securityOfficer
        default: .nobody
        }
    }

    /// Logs in. The proof is always shown to the token: whoever is logged in already is logged out first, so that a
    /// wrong proof never passes on the strength of an earlier right one. Ask ``loginState()`` to reuse a login.
    ///
    /// - Throws: `returned(.pinIncorrect)`, `.pinLocked` …; never repeated by the ladder.
    func login(_ role: LoginRole, with proof: LoginProof) throws(CryptokiError) {
        try checkCancellation()
        if try loginState() != .nobody { try logout() }
        try prove(role.rawValue, with: proof)
    }

    /// Logs out. Handles of private objects are forgotten. It is no error when nobody is logged in.
    func logout() throws(CryptokiError) {
        knownKeys = [:]
        let value = try call.answer("C_Logout") { $0.pointee.C_Logout?(handle) }
        guard value == .ok || value == .userNotLoggedIn else { throw CryptokiError(value, from: "C_Logout") }
    }

    /// Changes the PIN of who is logged in, or of the user where nobody is (`C_SetPIN`).
    func changePIN(from old: LoginProof, to new: LoginProof) throws(CryptokiError) {
        try checkCancellation()
        try old.withBytes { oldBytes, oldCount throws(CryptokiError) in
            try new.withBytes { newBytes, newCount throws(CryptokiError) in
                try show("C_SetPIN") {
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
    func prove(_ userType: UInt, with proof: LoginProof) throws(CryptokiError) {
        try proof.withBytes { bytes, count throws(CryptokiError) in
            try show("C_Login") { $0.pointee.C_Login?(handle, userType, bytes, count) }
        }
    }

    /// Makes a call that shows a proof. What it answers but success leaves the proof unsettled, so that the ladder does
    /// not show it again: a token that answers ‘device error’ may have counted a wrong PIN before it did. Only a
    /// session or a module that was gone before the call can't have looked at it.
    private func show(
        _ function: String, _ body: (UnsafeMutablePointer<CK_FUNCTION_LIST>) -> CK_RV?
    ) throws(CryptokiError) {
        willShowProof()
        hasUnsettledProof = true
        let value = try call.answer(function, .person, body)
        hasUnsettledProof = ![.ok, .sessionHandleInvalid, .cryptokiNotInitialized].contains(value)
        guard value == .ok else { throw CryptokiError(value, from: function) }
    }
}
