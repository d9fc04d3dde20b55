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

    static let unreadableArguments = BusError(
        name: "org.freedesktop.DBus.Error.InvalidArgs", message: "the arguments are too long, or of another type")

    /// Whether nobody serves under the name, and nobody can be started to.
    package var isAbsence: Bool {
        [
            "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner",
            "org.freedesktop.DBus.Error.Disconnected", "org.freedesktop.DBus.Error.NoReply",
            "org.freedesktop.DBus.Error.NoServer", "org.latchkey.Bus.Error.Local", "org.latchkey.Bus.Error.Closed",
        ].contains(name) || name.hasPrefix("org.freedesktop.DBus.Error.Spawn")
            || name.hasPrefix("org.freedesktop.systemd1.")
    }
}
