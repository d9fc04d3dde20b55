internal import Latchkey

/// PINs that can't be the token's are kept from it: it would count them as guesses, or answer with a code for something
/// else.
extension TokenNature {
    /// Looks at a PIN that is said to be the user's.
    ///
    /// - Throws: ``KeystoreError`` with code `wrongProof`.
    func check(_ pin: PIN, attemptsLeft: Int?, _ operation: String) throws(KeystoreError) {
        guard let (range, count) = misfit(pin, in: pinLength) else { return }
        throw KeystoreError(
            operation: operation, code: .wrongProof,
            reason: "the token's PIN has \(range.lowerBound) to \(range.upperBound) bytes, and this one \(count)",
            recovery: "Try again with the token's own PIN; this one was not sent.", attemptsLeft: attemptsLeft)
    }

    /// Looks at a PIN that will be the user's or the security officer's.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput`.
    func checkNew(_ pin: PIN, of role: LoginRole = .user, _ operation: String) throws(KeystoreError) {
        guard let (range, count) = misfit(pin, in: role == .user ? pinLength : officerPINLength) else { return }
        throw .invalidInput(
            operation,
            "the token takes PINs of \(range.lowerBound) to \(range.upperBound) bytes, and the new one has \(count)")
    }

    private func misfit(_ pin: PIN, in range: ClosedRange<Int>?) -> (range: ClosedRange<Int>, count: Int)? {
        let count = pin.withUnsafeBytes { $0.count }
        guard let range, !range.contains(count) else { return nil }
        return (range, count)
    }
}
