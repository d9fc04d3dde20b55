internal import Glibc
public import Latchkey

/// The source of PINs of a command-line program: `tty`, `pinentry`, `fd:N` or `file:PATH`.
public enum PINSource: Hashable, Sendable {
    /// The controlling terminal.
    case terminal
    /// A pinentry program.
    case pinentry
    /// An open file descriptor, one PIN per line.
    case descriptor(Int32)
    /// A file that only its owner can read, one PIN per line.
    case file(String)

    /// - Returns: nil if the text has none of the four forms, the descriptor is not a number from 0
    ///   up, or the path is empty.
    package init?(_ text: String) {
        switch text {
        case "tty": self = .terminal
        case "pinentry": self = .pinentry
        case let text where text.hasPrefix("fd:"):
            guard let number = Int32(text.dropFirst(3)), number >= 0 else { return nil }
            self = .descriptor(number)
        case let text where text.hasPrefix("file:") && text.utf8.count > 5:
            self = .file(String(text.dropFirst(5)))
        default: return nil
        }
    }

    /// The source that a setting names. If the setting is absent or empty: the terminal if the
    /// process has one, otherwise pinentry.
    ///
    /// - Throws: `KeystoreError` with code `invalidInput` for any other text.
    public init(named text: String?) throws(KeystoreError) {
        guard let text, !text.isEmpty else {
            self = .standard
            return
        }
        guard let source = PINSource(text) else {
            // Not the text: it may be a PIN.
            throw .invalidPINSource("the value is not tty, pinentry, fd:N or file:PATH")
        }
        self = source
    }

    /// The terminal if the process has one, else pinentry.
    package static var standard: PINSource {
        TerminalPresence.isPresent() ? .terminal : .pinentry
    }

    /// The authority that reads PINs from this source.
    ///
    /// - Parameter environment: Names the terminal, display and locale for pinentry.
    ///   `PINENTRY_PROGRAM` names the program.
    /// - Throws: `KeystoreError` with code `invalidInput` for a file that cannot be read or that
    ///   others can read.
    public func authority(environment: [String: String]) throws(KeystoreError)
        -> any PresenceAuthority
    {
        switch self {
        case .terminal: return TerminalPresence()
        case .pinentry: return PinentryPresence(environment: environment)
        case .descriptor(let number): return DescriptorPresence(number)
        case .file(let path): return try FilePresence(path: path)
        }
    }
}

extension PINSource: CustomStringConvertible {
    /// The text that names this source.
    public var description: String {
        switch self {
        case .terminal: "tty"
        case .pinentry: "pinentry"
        case .descriptor(let number): "fd:\(number)"
        case .file(let path): "file:\(path)"
        }
    }
}

extension KeystoreError {
    /// An error because a prompt is not possible.
    static func unavailable(
        _ reason: String, recovery: Recovery, underlying: UnderlyingError? = nil
    )
        -> KeystoreError
    {
        KeystoreError(
            operation: "ask for the PIN", code: .unavailable, reason: reason, recovery: recovery,
            underlying: underlying)
    }

    package static func invalidPINSource(_ reason: String, recovery: Recovery = otherPINSource)
        -> KeystoreError
    {
        KeystoreError(
            operation: "use the PIN source", code: .invalidInput, reason: reason, recovery: recovery
        )
    }

    static let otherPINSource = Recovery("Use another source of PINs.", .choosePINSource)
    /// The alternative to a first sentence.
    static let orOtherPINSource = Recovery("Or use another source of PINs.", .choosePINSource)
}
