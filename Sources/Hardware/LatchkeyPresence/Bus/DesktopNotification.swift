internal import Latchkey
internal import Synchronization

/// Shows messages on the user's desktop (Desktop Notifications Specification 1.2). Each message
/// replaces the one before.
package final class DesktopNotification: Sendable {
    private static let target = BusTarget(
        "org.freedesktop.Notifications", "/org/freedesktop/Notifications",
        "org.freedesktop.Notifications", "Notify")
    /// The maximum length of a message in characters.
    private static let limit = 500

    private let address: String
    private let lastID = Mutex<UInt32>(0)

    /// - Parameter environment: Names the session bus.
    /// - Returns: nil without a session bus.
    package init?(environment: [String: String]) {
        if let address = environment["DBUS_SESSION_BUS_ADDRESS"], !address.isEmpty {
            self.address = address
        } else if let directory = environment["XDG_RUNTIME_DIR"], directory.hasPrefix("/") {
            address = "unix:path=\(directory)/bus"
        } else {
            return nil
        }
    }

    /// Shows a message, if the desktop does.
    ///
    /// - Returns: Whether the desktop accepted it.
    @discardableResult
    package func show(_ title: String, _ text: String) async -> Bool {
        do throws(BusError) {
            let bus = try await Bus.system(at: address)
            let answer = try await bus.call(
                Self.target,
                [
                    .string("Latchkey"), .uint32(lastID.withLock(\.self)), .string(""),
                    .string(title), .string(Self.plain(text)), .strings([]), .dictionary([:]),
                    .int32(-1),
                ])
            if case .uint32(let id)? = answer.first { lastID.withLock { $0 = id } }
            return true
        } catch {
            return false
        }
    }

    /// A desktop may read the text as markup, with links.
    private static func plain(_ text: String) -> String {
        let marks: [Unicode.Scalar: Unicode.Scalar] = ["<": "‹", ">": "›", "&": "＆"]
        let scalars = String(oneLine: text, limit: limit).unicodeScalars.map { marks[$0] ?? $0 }
        return String(String.UnicodeScalarView(scalars))
    }
}
