public import ArgumentParser
import FoundationEssentials
import Latchkey
public import LatchkeyLocker

extension LockerCommand {
    /// `latchkey locker encrypt`.
    struct Encrypt: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "encrypt",
            abstract: "Encrypt the text from standard input, at most 1 MiB, for a protection level."
        )

        static let createsStore = true

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @OptionGroup var locker: LockerArguments

        @Option(help: "The level that decrypting requires.") var level: ProtectionLevel

        var operation: String? { "encrypt" }

        func perform(in context: CommandContext) async throws -> BriefReport {
            let session = try await LockerSession(in: context, locker, for: level)
            let secret = try await context.readSecret(limit: Locker.maximumSecretBytes)
            guard let text = secret.withUnsafeBytes({ String(validating: $0, as: UTF8.self) })
            else {
                throw KeystoreError(
                    code: .invalidInput, reason: "the input is not UTF-8 text",
                    recovery: "Encode other data as text first, for example with base64.")
            }
            try await session.enrolment()
            return try await session.started(for: level) { locker in
                let encrypted = try locker.encrypt(secret: text, protectionLevel: level)
                return BriefReport(
                    ["level": level.rawValue, "encrypted": encrypted], data: encrypted)
            }
        }
    }

    /// `latchkey locker decrypt`.
    struct Decrypt: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "decrypt",
            abstract:
                "Print only the decrypted text. With --json, print its level without the text.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @OptionGroup var locker: LockerArguments

        var operation: String? { "decrypt" }

        func perform(in context: CommandContext) async throws -> BriefReport {
            // The text may be wrapped into lines.
            let input = try await context.readSecret(
                limit: Locker.maximumEncryptedCharacters / 2 * 3,
                larger: "Pass only the output of ‘latchkey locker encrypt’.")
            let text = input.text.filter { !$0.isWhitespace }
            let level = try Locker.protectionLevel(of: text)
            let session = try await LockerSession(in: context, locker, for: level)
            // No prompt for a text that this machine cannot decrypt.
            guard try await session.enrolment().id == Locker.enrolmentID(of: text) else {
                throw ProtectionError.wrongEnrolment
            }
            return try await session.started(for: level) { locker in
                // JSON does not contain the text.
                BriefReport(
                    ["level": level.rawValue], text: "The text has the level ‘\(level.rawValue)’.",
                    secretOutput: SecretBytes(try locker.decrypt(encryptedSecret: text).utf8))
            }
        }
    }
}

/// The value of `--level`, the strictest first.
extension ProtectionLevel: ExpressibleByArgument {
    public static let allValueStrings = allCases.reversed().map(\.rawValue)
}
