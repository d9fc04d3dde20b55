internal import Glibc
public import Latchkey

/// Where a command-line program gets PINs from: `tty`, `pinentry`, `fd:N` or `file:PATH`.
public enum PINSource: Hashable, Sendable {
    /// The controlling terminal.
    case terminal
    /// A pinentry program.
    case pinentry
    /// An open file descriptor, one PIN per line.
    case descriptor(Int32)
    /// A file that nobody else can read, one PIN per line.
    case file(String)

    /// - Returns: nil for text that is none of the four forms, a descriptor that is no number from 0 up, and an empty
    ///   path.
    public init?(_ text: String) {
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

    /// The source that a setting names, ``standard`` where it is absent or empty.
    ///
    /// - Throws: `KeystoreError` with code `invalidInput` for text that ``init(_:)`` takes for none.
    public init(named text: String?) throws(KeystoreError) {
        guard let text, !text.isEmpty else {
            self = .standard
            return
        }
        guard let source = PINSource(text) else {
            throw .invalidInput("ask for PINs at ‘\(text)’", "a source is tty, pinentry, fd:N or file:PATH")
        }
        self = source
    }

    /// The terminal if the process has one, else pinentry.
    public static var standard: PINSource {
        TerminalPresence.isPresent() ? .terminal : .pinentry
    }

    /// The authority that asks there.
    ///
    /// - Parameter environment: pinentry is told of the terminal, the display and the locale that it names, and
    ///   `PINENTRY_PROGRAM` names the program itself.
    /// - Throws: `KeystoreError` with code `invalidInput` for a file that can't be read or that others can read.
    public func authority(environment: [String: String]) throws(KeystoreError) -> any PresenceAuthority {
        switch self {
        case .terminal: TerminalPresence()
        case .pinentry: PinentryPresence(environment: environment)
        case .descriptor(let number): DescriptorPresence(number)
        case .file(let path): try FilePresence(path: path)
        }
    }
}

extension PINSource: CustomStringConvertible {
    /// The form that ``init(_:)`` reads.
    public var description: String {
        switch self {
        case .terminal: "tty"
        case .pinentry: "pinentry"
        case .descriptor(let number): "fd:\(number)"
        case .file(let path): "file:\(path)"
        }
    }
}
