import FoundationEssentials
import Glibc

/// The standard output streams.
enum Output: Int32 {
    case result = 1
    case error = 2

    /// Writes without buffering, because a program may be waiting at the other end of a pipe.
    static func write(_ text: String, to output: Output) {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let written = bytes.withUnsafeBytes { Glibc.write(output.rawValue, $0.baseAddress, $0.count) }
            guard written > 0 else { return }
            bytes = bytes.dropFirst(written)
        }
    }
}

/// The line on stdout when the card is ready.
struct ReadyLine: Encodable {
    let control: String?
    let firmware: String
    let port: UInt16
    let serial: UInt32

    /// The JSON and a newline.
    var text: String {
        get throws {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            return String(decoding: try encoder.encode(self), as: UTF8.self) + "\n"
        }
    }
}

/// A failure of the command.
struct CommandFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}
