package import Latchkey

/// Asks a question at a terminal that the user answers with `yes`.
package enum TerminalQuestion {
    /// The longest answer, in bytes.
    private static let maximumLength = 16

    /// Shows the question and reads one line.
    ///
    /// - Parameters:
    ///   - question: One or two sentences without control characters.
    ///   - path: The terminal's device; the process's own by default.
    ///   - timeout: How long the user may take.
    /// - Returns: Whether the line is `yes`. Every other line, the end of input, the deadline and cancellation mean no.
    /// - Throws: `KeystoreError` with code `unavailable` without a terminal.
    package static func isConfirmed(
        _ question: String, path: String = "/dev/tty", timeout: Duration = .seconds(120)
    ) async throws(KeystoreError) -> Bool {
        let result = await onOwnThread { wakeUp in
            Result { () throws(KeystoreError) in
                let terminal = try QuietTerminal.open(path: path)
                terminal.show("\(question)\nType ‘yes’ to confirm: ")
                let reader = PatientReader(descriptor: terminal.descriptor, wakeUp: wakeUp, deadline: .now + timeout)
                return line(from: reader) == Array("yes".utf8)
            }
        }
        return try result.get()
    }

    private static func line(from reader: PatientReader) -> [UInt8]? {
        var line: [UInt8] = []
        while line.count <= maximumLength {
            guard case (.bytes, let byte) = reader.readByte() else { return nil }
            if byte == UInt8(ascii: "\n") { return line }
            line.append(byte)
        }
        return nil
    }
}
