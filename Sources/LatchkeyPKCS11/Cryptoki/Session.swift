internal import CPKCS11
internal import FoundationEssentials
internal import Latchkey

/// The session that a token's thread keeps open (`CKF_RW_SESSION | CKF_SERIAL_SESSION`).
///
/// ``Token/withSession(isExclusive:_:)`` passes it to its closure, on the token's thread only: not Sendable. Every method is one or a few
/// Cryptoki calls, each with a deadline.
final class Session {
    let profile: ModuleProfile
    let call: Caller
    let slot: UInt
    let handle: UInt
    /// A cache of keys until logout: finding a key takes longer the more keys the token has.
    var knownKeys: [Data: TokenKey] = [:]
    /// Whether a proof was sent and the token may have counted it as wrong. It must not be sent again without a new prompt.
    var hasUnsettledProof = false
    private let thread: TokenThread
    private let noteProof: () -> Void

    /// Opens a session; a read-only one if the token is write-protected.
    ///
    /// - Parameter noteProof: Called before each proof is sent to the token.
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

    /// Closes the session. Ignores errors, since there is nothing left to do.
    func close() {
        _ = try? call.answer("C_CloseSession") { $0.pointee.C_CloseSession?(handle) }
    }

    /// Reads the token's current flags.
    ///
    /// Do not call it between the proof and the signature of an always-authenticating key: on a PIV card the call may consume
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

    /// Records that the token may be unlocked from now on.
    func willShowProof() { noteProof() }

    /// Throws `cancelled` if the task that waits for this work was cancelled. Operations that take long or change the token
    /// call it before they start; cleanup does not.
    func checkCancellation() throws(CryptokiError) {
        if thread.isWorkAbandoned { throw .cancelled }
    }
}
