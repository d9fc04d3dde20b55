import ArgumentParser
import Latchkey
import LatchkeyLocker

/// `latchkey locker encrypt`.
struct LockerEncryptCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "encrypt",
        abstract: "Encrypt the text that comes on standard input, at most 1 MiB, for sessions of a level.")

    @OptionGroup var options: GlobalOptions

    @OptionGroup var locker: LockerOptions

    @Option(help: "What it takes to read it: active, offline, background or base.")
    var level: ProtectionLevelArgument

    func perform(in context: CommandContext) async throws -> EncryptedReport {
        let session = try await LockerSession(in: context, locker, for: level.level)
        let secret = try context.readSecret("encrypt", limit: Locker.maximumSecretBytes)
        guard let text = secret.withUnsafeBytes({ String(validating: $0, as: UTF8.self) }) else {
            throw KeystoreError.invalidInput("encrypt", "it is not text in UTF-8")
        }
        try await session.enrolment("encrypt")
        return try await session.started(for: level.level) { locker in
            EncryptedReport(
                level: level.rawValue,
                encrypted: try locker.encrypt(secret: text, protectionLevel: level.level))
        }
    }
}

/// A protection level as `--level` names it.
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

/// What came of encrypting.
struct EncryptedReport: Report {
    let level: String
    let encrypted: String

    var text: String { encrypted }
}
