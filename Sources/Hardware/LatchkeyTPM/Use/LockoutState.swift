internal import FoundationEssentials
internal import Latchkey
internal import TPM2

/// The state of the TPM's dictionary-attack protection (TPM 2.0 Part 1 section 17.8).
struct LockoutState: Hashable, Sendable {
    let counter: UInt32
    let limit: UInt32
    /// The seconds of powered-on time until one failure is forgotten. 0 if failures do not lock the
    /// TPM.
    let interval: UInt32
    /// The seconds for which the TPM refuses the lockout password after a wrong one
    /// (lockoutRecovery). 0 if it refuses the password until it is restarted.
    let recovery: UInt32

    /// Reads the state. One command.
    init(_ tpm: TPM) throws(TPMError) {
        let properties = try tpm.properties(from: .lockoutCounter, count: 4)
        guard let counter = properties[.lockoutCounter], let limit = properties[.maxAuthFail],
            let interval = properties[.lockoutInterval], let recovery = properties[.lockoutRecovery]
        else {
            throw TPMError(
                .malformed, command: .getCapability,
                reason: "the TPM does not report its lockout state")
        }
        self.counter = counter
        self.limit = limit
        self.interval = interval
        self.recovery = recovery
    }

    var isLockedOut: Bool { counter >= limit && interval != 0 }

    /// Nil if failures do not lock the TPM.
    var attemptsLeft: Int? { interval == 0 ? nil : Int(limit) - Int(min(counter, limit)) }

    /// The TPM does not report the elapsed part of the interval, so the time of release is the
    /// latest possible.
    ///
    /// - Parameter start: The earliest time at which the lockout was seen.
    func status(since start: Date) -> PINStatus {
        PINStatus(
            attemptsLeft: attemptsLeft, attemptLimit: interval == 0 ? nil : Int(limit),
            isLockedOut: isLockedOut,
            lockedOutUntil: isLockedOut ? start.addingTimeInterval(Double(interval)) : nil,
            recoverySeconds: Int(interval))
    }
}

extension TPM {
    /// `TPMA_PERMANENT`, bit 2 (Part 2 section 8.6).
    static let lockoutAuthSet: UInt32 = 4

    /// Whether the reset of the count of wrong PINs requires a password. One command.
    func isLockoutPasswordSet() throws(TPMError) -> Bool {
        try properties(from: .permanent, count: 1)[.permanent, default: 0] & Self.lockoutAuthSet
            != 0
    }
}

extension TPMKeystore {
    /// The time at which this store has first seen the current lockout, so that its end is the same
    /// in each report. The store keeps it; if that fails, the end is reported later than it is.
    func lockoutStart(_ state: LockoutState, isNow: Bool = false) async -> Date {
        let now = UInt64(Date().timeIntervalSince1970)
        var start = now
        if state.isLockedOut {
            let stored = try? await anchors.anchor(Self.lockoutAnchor)
            let earlier = stored.flatMap { try? UInt64(unmarshalling: Array($0)) }
            if !isNow, let earlier, earlier <= now, now - earlier <= state.interval {
                start = earlier
            } else {
                try? await anchors.replaceAnchor(Self.lockoutAnchor, with: Data(now.marshalled))
            }
        }
        return Date(timeIntervalSince1970: Double(start))
    }

    /// The name of the time, in seconds since 1970, at which the lockout was first seen.
    private static let lockoutAnchor = "tpm/lockout"
}
