internal import Glibc
internal import Latchkey

extension KeystoreError {
    /// Nobody can be asked.
    static func unavailable(_ reason: String, recovery: String, underlying: Underlying? = nil) -> KeystoreError {
        KeystoreError(
            operation: "ask for the PIN", code: .unavailable, reason: reason, recovery: recovery,
            underlying: underlying)
    }

    static let otherPINSource = "Name another source with --pin-source or LATCHKEY_PIN_SOURCE."
}

/// The system's sentence for an `errno`.
func systemReason(_ number: Int32) -> String {
    strerror(number).map { String(cString: $0) } ?? "error \(number)"
}
