package import Latchkey
package import LatchkeyPresence

extension PINSource {
    /// The reason why this source cannot provide PINs, as far as it is known before the first
    /// prompt.
    package func obstacle(environment: [String: String]) -> KeystoreError? {
        switch self {
        case .terminal:
            return TerminalPresence.isPresent()
                ? TerminalPresence.backgroundObstacle()
                : Self.nowhere("there is no terminal for the prompt", Self.otherSource)
        case .pinentry: return PinentryPresence.obstacle(environment: environment)
        case .descriptor(let number) where !InheritedDescriptors.contains(number):
            return Self.nowhere(
                "descriptor \(number) is not open",
                "Open it (3<file for fd:3), or set another source.")
        case .file(let path):
            do throws(KeystoreError) {
                _ = try FilePresence(path: path)
                return nil
            } catch {
                return error
            }
        case .descriptor: return nil
        }
    }

    private static let otherSource = "Set another source with --pin-source or LATCHKEY_PIN_SOURCE."

    private static func nowhere(_ reason: String, _ recovery: String) -> KeystoreError {
        KeystoreError(
            operation: "ask for the PIN", code: .unavailable, reason: reason,
            recovery: "\(recovery)")
    }
}
