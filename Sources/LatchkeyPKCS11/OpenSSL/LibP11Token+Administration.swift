internal import CLibP11
internal import FoundationEssentials

/// What changes a token. All of it is for an administration context: one in which nothing else was done before
/// ``beginWriting()``, and which nothing else is done in after ``endWriting()``.
///
/// libp11 is told no PIN but the one that `C_InitToken` wants: `PKCS11_login` keeps a copy of what it is given for as long
/// as the process lives. The direct side logs in, and that is the whole application's login.
extension LibP11Token {
    /// Fixes libp11's sessions to be ones that may write. It closes all sessions that this process has with the token,
    /// the direct side's too, which opens new ones when it needs them.
    func beginWriting() throws(CryptokiError) {
        LibP11Error.clear()
        guard PKCS11_open_session(slot, 1) == 0 else { throw LibP11Error.take("PKCS11_open_session") }
    }

    /// Logs out and closes all sessions, so that nobody stays logged in as security officer.
    func endWriting() {
        PKCS11_logout(slot)
        // A change of mode closes the sessions and opens none.
        PKCS11_open_session(slot, 0)
        LibP11Error.clear()
    }

    /// Erases the token and gives it a security officer's PIN and a label.
    ///
    /// - Parameter label: 1 to 32 bytes.
    func initialize(label: String, securityOfficer proof: LoginProof) throws(CryptokiError) {
        LibP11Error.clear()
        // Cryptoki reads 32 bytes, padded with blanks, and libp11 passes on what it is given.
        let padded =
            Array((label + String(repeating: " ", count: 32)).utf8.prefix(32).map(CChar.init(bitPattern:))) + [0]
        try proof.withTerminatedBytes { (bytes) throws(CryptokiError) in
            guard PKCS11_init_token(token, bytes, padded) == 0 else { throw LibP11Error.take("C_InitToken") }
        }
    }
}
