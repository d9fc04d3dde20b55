internal import Latchkey

extension PINStatus {
    /// The PIN status by the token's flags. The only number that they give is "one attempt left".
    init(_ information: TokenInformation) {
        let isLocked = information.flags.contains(.userPINLocked)
        let left: Int? =
            if isLocked { 0 } else if information.flags.contains(.userPINFinalTry) { 1 } else { nil }
        self.init(attemptsLeft: left, attemptLimit: nil, isLockedOut: isLocked)
    }
}
