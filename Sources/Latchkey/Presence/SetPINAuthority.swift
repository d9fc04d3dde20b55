/// An authority that may answer a request for a new PIN with the PIN that is set already.
///
/// A keystore holds a PIN that a person chooses to its rules. A PIN that is set was chosen before, and changing it is another
/// operation.
package protocol SetPINAuthority: PresenceAuthority {
    /// Whether the last request for a new PIN was answered with the PIN that is set, which the hardware has checked.
    var gaveSetPIN: Bool { get }
}
