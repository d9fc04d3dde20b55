import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyLocker

/// `latchkey locker decrypt`.
struct LockerDecryptCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "decrypt",
        abstract: "Print the text that was encrypted, and nothing else. With --json, tell its level and keep the text.")

    @OptionGroup var options: GlobalOptions

    @OptionGroup var locker: LockerOptions

    func perform(in context: CommandContext) async throws -> DecryptedReport {
        let session = try await LockerSession(in: context, locker)
        let text = try StandardStreams.readSecret("decrypt").text.filter { !$0.isWhitespace }
        let level = try Locker.protectionLevel(of: text)
        return try await session.opened(for: level) { locker in
            DecryptedReport(
                level: level.rawValue, secret: SecretBytes(try locker.decrypt(encryptedSecret: text).utf8))
        }
    }
}

/// A secret that somebody asked for, which is in no JSON.
struct DecryptedReport: Report {
    let level: String
    let secret: SecretBytes

    var text: String { "The text is of the level ‘\(level)’." }
    var secretOutput: SecretBytes? { secret }

    func encode(to encoder: any Encoder) throws { try ["level": level].encode(to: encoder) }
}
