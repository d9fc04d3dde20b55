internal import CPKCS11
internal import FoundationEssentials
internal import Latchkey

/// The session that a token's thread keeps open (`CKF_RW_SESSION | CKF_SERIAL_SESSION`).
///
/// Lent to the closure of ``Token/perform(_:)``, and used on that thread only: not Sendable. Every method is one or a
/// few Cryptoki calls, each with a deadline; each throws ``CryptokiError``.
final class Session {
    let profile: ModuleProfile
    let call: Caller
    let slot: UInt
    let handle: UInt
    /// The keys that were looked up, until logout: finding one takes as long as the token has keys.
    var knownKeys: [Data: TokenKey] = [:]
    /// Whether a proof was shown and the token gave no verdict that counts as none: the PIN may have been counted as
    /// wrong, and nothing may show it again by itself.
    var hasUnsettledProof = false
    private let thread: TokenThread
    private let noteProof: () -> Void

    /// Opens a session; one that only reads where the token can't be written to.
    ///
    /// - Parameter noteProof: Called before each proof that is shown to the token.
    init(slot: UInt, call: Caller, thread: TokenThread, noteProof: @escaping () -> Void) throws(CryptokiError) {
        self.slot = slot
        self.call = call
        self.thread = thread
        self.noteProof = noteProof
        profile = call.module.profile
        var session: CK_SESSION_HANDLE = 0
        let function = "C_OpenSession"
        let serial = UInt(CKF_SERIAL_SESSION)
        var value = try call.answer(function) {
            $0.pointee.C_OpenSession?(slot, serial | UInt(CKF_RW_SESSION), nil, nil, &session)
        }
        if value == .tokenWriteProtected {
            value = try call.answer(function) { $0.pointee.C_OpenSession?(slot, serial, nil, nil, &session) }
        }
        guard value == .ok else { throw CryptokiError(value, from: function) }
        handle = session
    }

    /// Closes it. That it is gone already is no error, and no other error would help anybody.
    func close() {
        _ = try? call.answer("C_CloseSession") { $0.pointee.C_CloseSession?(handle) }
    }

    /// The token's present flags, read anew.
    ///
    /// Not between the proof and the signature of an always-authenticating key: on a PIV card the question may spend
    /// the proof.
    func tokenInformation() throws(CryptokiError) -> TokenInformation {
        try call.tokenInformation(slot: slot)
    }

    /// Whether the token has a mechanism (`C_GetMechanismInfo`).
    func supports(_ mechanism: Mechanism) throws(CryptokiError) -> Bool {
        var info = CK_MECHANISM_INFO()
        let function = "C_GetMechanismInfo"
        let value = try call.answer(function) {
            $0.pointee.C_GetMechanismInfo?(slot, mechanism.rawValue, &info)
        }
        switch value {
        case .ok: return true
        case .mechanismInvalid: return false
        default: throw CryptokiError(value, from: function)
        }
    }

    /// Says that the token may be unlocked from now on.
    func willShowProof() { noteProof() }

    /// Throws `cancelled` when the task that waits for this work was cancelled. Called by what begins something long or
    /// leaves something behind; not by what cleans up.
    func checkCancellation() throws(CryptokiError) {
        if thread.isWorkAbandoned { throw CryptokiError(.cancelled, reason: "it was cancelled") }
    }
}
