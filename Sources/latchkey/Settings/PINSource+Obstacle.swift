import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPresence

extension PINSource {
    /// What keeps PINs from being asked for there, as far as that shows before one is.
    func obstacle(environment: [String: String]) -> KeystoreError? {
        switch self {
        case .terminal where !TerminalPresence.isPresent():
            return Self.nowhere("there is no terminal to ask at", Self.otherSource)
        case .pinentry: return Self.pinentryObstacle(environment)
        case .descriptor(let number) where !InheritedDescriptors.contains(number):
            return Self.nowhere(
                "no descriptor \(number) is open", "Open it (fd:3 goes with 3<file), or name another source.")
        case .file(let path):
            do throws(KeystoreError) {
                _ = try FilePresence(path: path)
                return nil
            } catch {
                return error
            }
        case .terminal, .descriptor: return nil
        }
    }

    private static let otherSource = "Name another source with --pin-source or LATCHKEY_PIN_SOURCE."

    private static func pinentryObstacle(_ environment: [String: String]) -> KeystoreError? {
        func isSet(_ name: String) -> Bool { environment[name].map { !$0.isEmpty } ?? false }
        guard isInstalled(environment["PINENTRY_PROGRAM"] ?? "pinentry", path: environment["PATH"] ?? "") else {
            return nowhere(
                "there is neither a terminal nor a pinentry program", "Install pinentry-curses or another pinentry.")
        }
        // A program of somebody's own may ask wherever it likes.
        let places = ["PINENTRY_PROGRAM", "DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "GPG_TTY"]
        guard places.contains(where: isSet) || TerminalPresence.isPresent() else {
            return nowhere("pinentry has neither a terminal nor a desktop to ask at", otherSource)
        }
        return nil
    }

    private static func nowhere(_ reason: String, _ recovery: String) -> KeystoreError {
        KeystoreError(operation: "ask for the PIN", code: .unavailable, reason: reason, recovery: recovery)
    }

    private static func isInstalled(_ program: String, path: String) -> Bool {
        if program.contains("/") { return access(program, X_OK) == 0 }
        return path.split(separator: ":").contains { access("\($0)/\(program)", X_OK) == 0 }
    }
}
