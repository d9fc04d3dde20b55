import FoundationEssentials
import Glibc
import LatchkeyPresence

/// Who asks, as a person is told. The user is the bus's word; the rest is what the process says of itself, and only
/// there to be read.
struct Requester: Hashable, Sendable {
    let client: String
    let user: UInt32
    /// fprintd and PAM know users by name.
    let userName: String?
    let process: Int32?
    /// The process's name for itself.
    let program: String?
    let executable: String?

    init(client: String, _ credentials: BusCredentials) {
        self.client = client
        user = credentials.user
        userName = Self.name(of: credentials.user)
        process = credentials.process
        program = credentials.process.flatMap { Self.text(at: "/proc/\($0)/comm") }
        executable = credentials.process.flatMap {
            try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\($0)/exe")
        }
    }

    /// What stands in the prompt: `latchkey (process 4711, /usr/bin/latchkey) asks for a finger of alice to log in.`
    func prompt(_ reason: String, _ container: String) -> String {
        let program = Self.printable(program ?? "A program")
        let details = [process.map { "process \($0)" }, executable.map(Self.printable)].compactMap { $0 }
        let origin = details.isEmpty ? "" : " (\(details.joined(separator: ", ")))"
        let owner = Self.printable(userName ?? "user \(user)")
        return "\(program)\(origin) asks for a finger of \(owner) to \(Self.printable(reason)) "
            + "(container ‘\(Self.printable(container))’)."
    }

    private static func name(of user: UInt32) -> String? {
        var buffer = [CChar](repeating: 0, count: 16384)
        var entry = passwd()
        var found: UnsafeMutablePointer<passwd>?
        guard getpwuid_r(user, &entry, &buffer, buffer.count, &found) == 0, found != nil, let name = entry.pw_name
        else {
            return nil
        }
        return String(cString: name)
    }

    private static func text(at path: String) -> String? {
        guard let bytes = FileManager.default.contents(atPath: path) else { return nil }
        return String(decoding: bytes.prefix(64), as: UTF8.self).split(separator: "\n").first.map(String.init)
    }

    /// Text from elsewhere must not end a line or write from right to left.
    private static func printable(_ text: String) -> String {
        let scalars = text.unicodeScalars.prefix(200).map { scalar in
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator: Unicode.Scalar(UInt8(ascii: " "))
            default: scalar
            }
        }
        return String(String.UnicodeScalarView(scalars))
    }
}
