extension Session {
    /// Interprets the answer to a use of a private key.
    ///
    /// `CKR_USER_NOT_LOGGED_IN` has three meanings: there is no login, the proof for this use is
    /// missing, or the user did not touch the token. Only the last one takes long.
    /// `CKR_DEVICE_ERROR` (ykcs11) and `CKR_GENERAL_ERROR` (OpenSC) after that time are the answers
    /// to status word 6600 of other firmware, which means the same; or the token was removed, which
    /// ``Connection`` finds out.
    ///
    /// - Parameter feature: The feature that a module without the mechanism lacks, for
    ///   `unsupported`.
    func check(
        _ value: ReturnValue, from function: String, after time: Duration = .zero,
        unsupported feature: String? = nil
    ) throws(CryptokiError) {
        if time >= call.deadlines.touch,
            [.userNotLoggedIn, .deviceError, .generalError].contains(value)
        {
            throw CryptokiError(
                .touchTimedOut, function: function,
                reason: "the user did not touch the token in time (\(value))")
        }
        switch value {
        case .ok: return
        case .mechanismInvalid, .functionNotSupported:
            guard let feature else { throw CryptokiError(value, from: function) }
            throw CryptokiError(
                .unsupported, function: function, reason: "the module has no \(feature): \(value)")
        case .userNotLoggedIn:
            throw CryptokiError(
                .loginNeeded, function: function,
                reason: "the token requires its PIN again: \(value)")
        default: throw CryptokiError(value, from: function)
        }
    }
}
