/// Why a call on a bus did not succeed.
package struct BusError: Error, Hashable, Sendable {
    /// The error's name, for example `org.freedesktop.DBus.Error.ServiceUnknown`.
    package let name: String
    package let message: String

    package init(name: String, message: String) {
        self.name = name
        self.message = message
    }

    /// An error of this side, by its `errno` (negative, as sd-bus returns it).
    init(_ code: Int32, _ doing: String) {
        self.init(name: "org.latchkey.Bus.Error.Local", message: "\(doing): \(systemReason(-code))")
    }

    package static let closed = BusError(
        name: "org.latchkey.Bus.Error.Closed", message: "the connection to the bus is closed")

    /// The machine has no system bus: the bus's socket does not exist.
    static let noBus = BusError(name: "org.freedesktop.DBus.Error.NoServer", message: "there is no system bus")

    static let unreadableArguments = BusError(
        name: "org.freedesktop.DBus.Error.InvalidArgs", message: "the arguments are too long, or of another type")

    /// Whether there is no bus, or no service with the name that was called. For messages only: the owner of a name can
    /// answer with such an error too.
    package var isAbsence: Bool {
        [
            "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner", Self.noBus.name,
        ].contains(name)
    }
}
