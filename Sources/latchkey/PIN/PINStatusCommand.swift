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
        PINStatusReport(try await context.records().pinStatus())
    }
}

struct PINStatusReport: Report {
    let attemptsLeft: Nullable<Int>
    let attemptLimit: Nullable<Int>
    let lockedOut: Bool
    let lockedOutUntil: Nullable<Date>
    let recoverySeconds: Nullable<Int>

    init(_ status: PINStatus) {
        attemptsLeft = Nullable(status.attemptsLeft)
        attemptLimit = Nullable(status.attemptLimit)
        lockedOut = status.isLockedOut
        lockedOutUntil = Nullable(status.lockedOutUntil)
        recoverySeconds = Nullable(status.recoverySeconds)
    }

    var text: String {
        guard !lockedOut else {
            let until = lockedOutUntil.value.map { " until \($0.formatted(.iso8601))" } ?? ""
            return "The hardware is locked and takes no PIN\(until)."
        }
        var lines = ["Attempts left:   \(attemptsLeft.value.map(String.init) ?? "unknown")"]
        if let limit = attemptLimit.value { lines.append("Attempt limit:   \(limit)") }
        if let seconds = recoverySeconds.value { lines.append("One is forgiven every \(seconds) s") }
        return lines.joined(separator: "\n")
    }
}
