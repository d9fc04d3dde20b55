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
        // The text, and lines that somebody has broken it into.
        let input = try context.readSecret(
            "decrypt", limit: Locker.maximumEncryptedCharacters / 2 * 3,
            larger: "Give what ‘latchkey locker encrypt’ printed, and nothing else.")
        let text = input.text.filter { !$0.isWhitespace }
        let level = try Locker.protectionLevel(of: text)
        let session = try await LockerSession(in: context, locker, for: level)
        // Nobody is asked for a text that nothing here can read.
        guard try await session.enrolment("decrypt").id == Locker.enrolmentID(of: text) else {
            throw ProtectionError.wrongEnrolment
        }
        return try await session.started(for: level) { locker in
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
