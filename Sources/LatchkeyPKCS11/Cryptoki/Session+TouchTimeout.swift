extension Session {
    /// Interprets the answer to a use of a private key.
    ///
    /// `CKR_USER_NOT_LOGGED_IN` has three meanings: there is no login, the proof for this use is missing, or the user did not
    /// touch the token. Only the last one takes long. An error of the device that takes as long means the same, unless the
    /// token was removed, which ``Connection`` finds out.
    ///
    /// - Parameter feature: The feature that a module without the mechanism lacks, for `unsupported`.
    func check(
        _ value: ReturnValue, from function: String, after time: Duration = .zero, unsupported feature: String? = nil
    ) throws(CryptokiError) {
        switch value {
        case .ok: return
        case .mechanismInvalid, .functionNotSupported:
            guard let feature else { throw CryptokiError(value, from: function) }
            throw CryptokiError(.unsupported, function: function, reason: "the module has no \(feature): \(value)")
        // The first is the answer of a YubiKey's module; the others are those of ykcs11 and OpenSC to other firmware's status
        // word 6600.
        case .userNotLoggedIn where time >= call.deadlines.touch, .deviceError where time >= call.deadlines.touch,
            .generalError where time >= call.deadlines.touch:
            throw CryptokiError(
                .touchTimedOut, function: function, reason: "the user did not touch the token in time (\(value))")
        case .userNotLoggedIn:
            throw CryptokiError(
                .loginNeeded, function: function, reason: "the token requires its PIN again: \(value)")
        default: throw CryptokiError(value, from: function)
        }
    }
}
