import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyLocker

extension LockerCommand {
    /// `latchkey locker encrypt`.
    struct Encrypt: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "encrypt",
            abstract: "Encrypt the text from standard input, at most 1 MiB, for a protection level.")

        @OptionGroup(title: GlobalOptions.title) var options: GlobalOptions

        @OptionGroup var locker: LockerOptions

        @Option(help: "The level that decrypting requires.")
        var level: ProtectionLevelArgument

        func perform(in context: CommandContext) async throws -> EncryptedReport {
            let session = try await LockerSession(in: context, locker, for: level.level)
            let secret = try context.readSecret("encrypt", limit: Locker.maximumSecretBytes)
            guard let text = secret.withUnsafeBytes({ String(validating: $0, as: UTF8.self) }) else {
                throw KeystoreError.invalidInput("encrypt", "the input is not UTF-8 text")
            }
            try await session.enrolment("encrypt")
            return try await session.started(for: level.level) { locker in
                EncryptedReport(
                    level: level.rawValue,
                    encrypted: try locker.encrypt(secret: text, protectionLevel: level.level))
            }
        }
    }

    /// `latchkey locker decrypt`.
    struct Decrypt: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "decrypt",
            abstract: "Print only the decrypted text. With --json, print its level without the text.")

        @OptionGroup(title: GlobalOptions.title) var options: GlobalOptions

        @OptionGroup var locker: LockerOptions

        func perform(in context: CommandContext) async throws -> DecryptedReport {
            // The text may be wrapped into lines.
            let input = try context.readSecret(
                "decrypt", limit: Locker.maximumEncryptedCharacters / 2 * 3,
                larger: "Pass only the output of ‘latchkey locker encrypt’.")
            let text = input.text.filter { !$0.isWhitespace }
            let level = try Locker.protectionLevel(of: text)
            let session = try await LockerSession(in: context, locker, for: level)
            // No prompt for a text that this machine cannot decrypt.
            guard try await session.enrolment("decrypt").id == Locker.enrolmentID(of: text) else {
                throw ProtectionError.wrongEnrolment
            }
            return try await session.started(for: level) { locker in
                DecryptedReport(
                    level: level.rawValue, secret: SecretBytes(try locker.decrypt(encryptedSecret: text).utf8))
            }
        }
    }
}

/// The value of `--level`: a protection level.
enum ProtectionLevelArgument: String, ExpressibleByArgument, CaseIterable {
    case active
    case offline
    case background
    case base

    var level: ProtectionLevel {
        switch self {
        case .active: .active
        case .offline: .offline
        case .background: .background
        case .base: .base
        }
    }
}

/// The encrypted text.
struct EncryptedReport: Report {
    let level: String
    let encrypted: String

    var text: String { encrypted }
}

/// The decrypted text. JSON does not contain it.
struct DecryptedReport: Report {
    let level: String
    let secret: SecretBytes

    var text: String { "The text has the level ‘\(level)’." }
    var secretOutput: SecretBytes? { secret }

    func encode(to encoder: any Encoder) throws { try ["level": level].encode(to: encoder) }
}
