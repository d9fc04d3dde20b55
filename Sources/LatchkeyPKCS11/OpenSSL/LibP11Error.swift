internal import CLibP11

/// Reads why libp11 failed out of OpenSSL's error queue, and empties it.
///
/// The queue's first entry is often noise ("expecting an rsa key" for a pulled card); the module's code lies deeper.
/// What counts is the last entry whose library is the one that libp11 has registered for `CKR_…` codes: its reason is
/// the code (`reference/pkcs11.md` section 1.1).
enum LibP11Error {
    /// - Parameter function: The libp11 function that failed.
    static func take(_ function: String) -> CryptokiError {
        let library = ERR_get_CKR_code()
        var answer: UInt?
        var last: UInt = 0
        while true {
            let code = ERR_get_error()
            guard code != 0 else { break }
            last = code
            if ERR_GET_LIB(code) == library { answer = UInt(truncatingIfNeeded: ERR_GET_REASON(code)) }
        }
        // libp11 passes a code of its own off as the module's when nobody gave it a PIN.
        if let answer, answer != UInt(P11_R_UI_FAILED) {
            return CryptokiError(ReturnValue(rawValue: answer), from: function)
        }
        if answer != nil {
            return CryptokiError(.loginNeeded, function: function, reason: "the proof for one signature is used up")
        }
        let words = ERR_reason_error_string(last).map { String(cString: $0) } ?? "it gives no reason"
        return CryptokiError(.unsupported, function: function, reason: "libp11 failed: \(words)")
    }

    /// Forgets what others left in the queue, so that it is not taken for what comes.
    static func clear() { ERR_clear_error() }
}
