import ArgumentParser
import FoundationEssentials
import Latchkey

/// `latchkey pin status`.
struct PINStatusCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show how many wrong PINs the hardware will still take. Asks nobody.")

    @OptionGroup var options: GlobalOptions

    func perform(in context: CommandContext) async throws -> PINStatusReport {
        let records = try await context.records()
        if let own = try await records.userPINStatus() { return PINStatusReport(own, isOwn: true) }
        return PINStatusReport(try await records.keystore.pinStatus(), isOwn: false)
    }
}

struct PINStatusReport: Report {
    let attemptsLeft: Nullable<Int>
    let attemptLimit: Nullable<Int>
    let lockedOut: Bool
    let lockedOutUntil: Nullable<Date>
    let recoverySeconds: Nullable<Int>
    /// Whether it is a count of the user's own, and not the hardware's guard.
    private let isOwn: Bool

    private enum CodingKeys: String, CodingKey {
        case attemptsLeft, attemptLimit, lockedOut, lockedOutUntil, recoverySeconds
    }

    init(_ status: PINStatus, isOwn: Bool) {
        self.isOwn = isOwn
        attemptsLeft = Nullable(status.attemptsLeft)
        attemptLimit = Nullable(status.attemptLimit)
        lockedOut = status.isLockedOut
        lockedOutUntil = Nullable(status.lockedOutUntil)
        recoverySeconds = Nullable(status.recoverySeconds)
    }

    var text: String {
        guard !(lockedOut && isOwn) else {
            return """
                The TPM takes your PIN no more: too many were wrong. Use your finger: the count begins anew then. Without \
                one, have an administrator reset it, as ‘man latchkey-presenced’ says.
                """
        }
        guard !lockedOut else {
            let until = lockedOutUntil.value.map { " until \($0.formatted(.iso8601))" } ?? ""
            return "The hardware is locked and takes no PIN\(until)\(until.isEmpty ? "" : " at the latest")."
        }
        var lines = ["Attempts left:   \(attemptsLeft.value.map(String.init) ?? "unknown")"]
        if let limit = attemptLimit.value { lines.append("Attempt limit:   \(limit)") }
        if let seconds = recoverySeconds.value { lines.append("One is forgiven every \(seconds) s") }
        return lines.joined(separator: "\n")
    }
}
