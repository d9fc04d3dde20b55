import Glibc
import Latchkey
import LatchkeyPresence
import Synchronization

/// The login password and the recovery text: each is one line at the terminal, or a line of standard
/// input in this order.
final class DesktopInput: Sendable {
    /// The maximum length of a line in bytes.
    private static let limit = 1024

    private let pinSource: PINSource?
    /// The lines of standard input that no call has returned; nil before the first call.
    private let rest = Mutex<[SecretBytes]?>(nil)

    /// - Parameter pinSource: Where PINs come from, which cannot be standard input too.
    init(pinSource: PINSource?) { self.pinSource = pinSource }

    func password() async throws(CommonError) -> SecretBytes {
        try await line("Type your login password, which is not shown.", "login password")
    }

    func recoveryText() async throws(CommonError) -> SecretBytes {
        try await line("Type the recovery text, which is not shown.", "recovery text")
    }

    private func line(_ prompt: String, _ name: String) async throws(CommonError) -> SecretBytes {
        guard isatty(STDIN_FILENO) != 1 else {
            return try await TerminalSecret.line(
                prompt, label: name.prefix(1).uppercased() + name.dropFirst(), limit: Self.limit)
        }
        guard pinSource != .descriptor(STDIN_FILENO) else {
            throw CommonError(
                operation: "read standard input", code: .invalidInput,
                reason: "standard input has the \(name), so PINs cannot come from descriptor 0",
                recovery: "Use another descriptor for the PINs: --pin-source fd:3, with 3<file.")
        }
        let next = try rest.withLock { rest throws(CommonError) -> SecretBytes? in
            if rest == nil { rest = try Self.lines() }
            return rest?.isEmpty == false ? rest?.removeFirst() : nil
        }
        guard let next, !next.isEmpty else {
            throw CommonError(
                operation: "read standard input", code: .invalidInput,
                reason: "standard input has no line with the \(name)",
                recovery: "Run the command at a terminal, or redirect a file with the line.")
        }
        return next
    }

    private static func lines() throws(CommonError) -> [SecretBytes] {
        StandardStreams.noteInputRead()
        let all = try StandardStreams.readSecret(
            limit: 2 * limit, larger: "Give one line for each text.")
        return all.withUnsafeBytes { bytes in
            bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
                .map { line in
                    SecretBytes(count: line.count) {
                        $0.copyMemory(from: UnsafeRawBufferPointer(rebasing: line))
                    }
                }
        }
    }
}
