import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyCredentials
import LatchkeySSH
import LatchkeyServices
import LatchkeyVault

/// The names of stored keys, vaults and credentials that a shell completes. Reads the store of the
/// command line. Does not prompt or use the hardware, and offers nothing if the store cannot be
/// read.
enum NameCompletion {
    static var keys: CompletionKind {
        completion { records in
            let kinds = [Record.keyKind, SSHKeyRecord.kind]
            return try await records.keys().filter { kinds.contains($0.kind) }
                .compactMap(\.key).map(\.name)
        }
    }

    static var vaults: CompletionKind {
        completion { records in
            try VaultSpace(records: records, presence: NobodyPresent()).keys()
        }
    }

    static var credentials: CompletionKind {
        completion { records in try CredentialStore(records: records).allIDs }
    }

    private static func completion(
        _ names: @escaping @Sendable (RecordContainer) async throws -> [String]
    ) -> CompletionKind {
        .custom { (words: [String], _: Int, prefix: String) async -> [String] in
            guard let records = try? await records(of: words),
                let found = try? await names(records)
            else { return [] }
            return found.filter { $0.hasPrefix(prefix) && isPlain($0) }
        }
    }

    /// Whether a shell reads the name as one word without an expansion. The completion script of
    /// bash passes the names to `compgen -W`, which runs commands in them.
    private static func isPlain(_ name: String) -> Bool {
        name == printable(name)
            && name.unicodeScalars.allSatisfy { scalar in
                !scalar.isASCII || scalar.properties.isAlphabetic
                    || "0123456789@%+=:,./_-".unicodeScalars.contains(scalar)
            }
    }

    /// The records of the command line's container.
    private static func records(of words: [String]) async throws -> RecordContainer {
        let options = ["container", "store", "tcti", "token"].compactMap { name in
            value(of: name, in: words).map { "--\(name)=\($0)" }
        }
        let settings = try ProgramSettings(
            ProgramOptions.parse(options), environment: ProcessInfo.processInfo.environment)
        return try settings.records(in: try await settings.existingStore())
    }

    private static func value(of option: String, in words: [String]) -> String? {
        let start = "--\(option)="
        if let word = words.last(where: { $0.hasPrefix(start) }) {
            return String(word.dropFirst(start.count))
        }
        guard let place = words.lastIndex(of: "--\(option)"), place + 1 < words.count else {
            return nil
        }
        return words[place + 1]
    }
}
