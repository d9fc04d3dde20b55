import Glibc

/// Where the command writes to.
enum Output: Int32 {
    case result = 1
    case error = 2

    /// Writes at once: a reader at the other end of a pipe is waiting.
    static func write(_ text: String, to output: Output) {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let written = bytes.withUnsafeBytes { Glibc.write(output.rawValue, $0.baseAddress, $0.count) }
            guard written > 0 else { return }
            bytes = bytes.dropFirst(written)
        }
    }
}
