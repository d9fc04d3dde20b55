internal import Latchkey

extension PINStatus {
    /// What the flags of a token say. They have no numbers but "one is left"; a token that locks nothing sets none.
    init(_ information: TokenInformation) {
        let isLocked = information.flags.contains(.userPINLocked)
        let left: Int? =
            if isLocked { 0 } else if information.flags.contains(.userPINFinalTry) { 1 } else { nil }
        self.init(attemptsLeft: left, attemptLimit: nil, isLockedOut: isLocked)
    }
}
