import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeySSH
import LatchkeyServices

/// `latchkey ssh`.
struct SSHCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ssh",
        abstract: "Use keys in the hardware for ssh and git, through latchkey-agent.",
        subcommands: [
            List.self, Add.self, Remove.self, Export.self, Restrict.self, Certificate.self,
            Install.self,
        ])
}

extension SSHCommand {
    /// `latchkey ssh list`.
    struct List: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract:
                "List the keys that latchkey-agent offers, oldest first. Does not use the hardware."
        )

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        var operation: String? { "list the SSH keys" }

        func perform(in context: CommandContext) async throws -> SSHKeyListReport {
            let (keys, damaged) = try await context.records().sshKeys()
            if let error = damaged.first { throw error }
            return SSHKeyListReport(keys: keys.map(SSHKeyReport.init), place: context.place)
        }
    }

    /// `latchkey ssh add`.
    struct Add: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "add",
            abstract: "Let latchkey-agent use an existing key.",
            discussion: """
                ‘latchkey key create --ssh’ creates a key for SSH. After this command, ‘latchkey key sign’ refuses the key, \
                and the agent signs with it only for logins, files and git.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: KeyIDArgument.help, completion: NameCompletion.keys)
        var key: KeyIDArgument

        @Flag(
            help:
                "Accept a key with the policy none, which any of your programs can use without a prompt."
        )
        var withoutVerification = false

        var operation: String? { "add an SSH key" }

        func perform(in context: CommandContext) async throws -> SSHKeyReport {
            let own = try await context.records().ownKey(key, isUsed: false)
            let key = own.key
            var entry = SSHKeyRecord(key)
            entry.settings.isOfferedWithoutVerification = withoutVerification
            try entry.checkVerification()
            let prompt = context.prompt("use the key ‘\(key.name)’ for SSH")
            let stored = try await context.sshRecords().apply(
                [
                    .delete(RecordID(key.id), ifGeneration: own.generation),
                    .put(try entry.record, payload: nil, ifGeneration: 0),
                ], for: prompt, authorizedBy: context.presence)
            return SSHKeyReport(try stored.first.map(SSHKeyRecord.init) ?? entry)
        }
    }

    /// `latchkey ssh remove`.
    struct Remove: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "remove",
            abstract:
                "Stop offering a key. It stays as an ordinary key, which ‘latchkey key delete’ deletes."
        )

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: KeyIDArgument.help, completion: NameCompletion.keys)
        var key: KeyIDArgument

        var operation: String? { "remove an SSH key" }

        func perform(in context: CommandContext) async throws -> BriefReport {
            let entry = try await context.sshRecords().sshKey(key)
            try await context.sshRecords().apply(
                [
                    .delete(SSHKeyRecord.id(of: entry.key.id), ifGeneration: entry.generation),
                    .put(Record(key: entry.key), payload: nil, ifGeneration: 0),
                ], for: context.prompt("remove the SSH key ‘\(entry.name)’"),
                authorizedBy: context.presence)
            return BriefReport(
                ["id": .string(entry.key.id.rawValue), "removed": true],
                text:
                    "The agent no longer offers the key \(entry.key.id). It is an ordinary key now."
            )
        }
    }

    /// `latchkey ssh export`.
    struct Export: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "export",
            abstract:
                "Print the public key as a line for authorized_keys and IdentityFile. Does not use the hardware."
        )

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: KeyIDArgument.help, completion: NameCompletion.keys)
        var key: KeyIDArgument

        @Flag(help: "Print the key's certificate instead.") var certificate = false

        var operation: String? { "export an SSH key" }

        func perform(in context: CommandContext) async throws -> BriefReport {
            let entry = try await context.records().sshKey(key)
            let comment = String(oneLine: entry.name)
            guard certificate else {
                let line = entry.publicKey.line(comment: comment)
                return BriefReport(["publicKey": line], data: line)
            }
            guard let stored = entry.certificate else {
                throw KeystoreError.notFound(
                    "the SSH key ‘\(entry.name)’ has no certificate",
                    recovery: "Store one with ‘latchkey ssh certificate \(entry.key.id) FILE’.")
            }
            let line = stored.line(comment: comment)
            return BriefReport(["certificate": line], data: line)
        }
    }
}

extension CommandContext {
    /// The container's records, for storing SSH keys: they belong to the hardware that protects the
    /// container, which may be the TPM although a token is configured.
    func sshRecords() async throws -> RecordContainer {
        try await settings.recordsOfAnyHardware(in: recordStore())
    }
}

extension RecordContainer {
    /// The SSH key that an argument names, from its record. Does not use the hardware.
    ///
    /// - Throws: ``KeystoreError``: `notFound`, `invalidInput` if the argument matches several keys,
    ///   or `damaged`.
    func sshKey(_ argument: KeyIDArgument) async throws(KeystoreError) -> SSHKeyRecord {
        guard let record = try await named(argument) else {
            throw .notFound(
                "the container ‘\(name)’ has no SSH key ‘\(argument.text)’",
                recovery:
                    "See ‘latchkey ssh list’. ‘latchkey ssh add’ adds a key of ‘latchkey key list’."
            )
        }
        guard record.kind == SSHKeyRecord.kind else {
            throw .notFound(
                "the key ‘\(argument.text)’ is not an SSH key",
                recovery: "‘latchkey ssh add \(record.id)’ lets latchkey-agent use it.")
        }
        return try SSHKeyRecord(record)
    }
}

struct SSHKeyListReport: Report {
    let keys: [SSHKeyReport]
    /// The value of ``CommandContext/place``.
    let place: String

    private enum CodingKeys: CodingKey {
        case keys
    }

    var layout: Layout {
        keys.isEmpty
            ? Layout("There are no SSH keys\(place). ‘latchkey key create --ssh’ creates one.")
            : .stack(keys.map(\.layout))
    }
}

/// An SSH key with its settings, without secrets.
struct SSHKeyReport: Report {
    let id: String
    let label: Nullable<String>
    let policy: String
    let backend: String
    /// The fingerprint as OpenSSH prints it.
    let fingerprint: String
    /// The line for `authorized_keys`.
    let publicKey: String
    /// The permitted logins, in the syntax of `--host`; empty for all.
    let hosts: [String]
    let allowsForwarding: Bool
    let signsAnything: Bool
    let certificate: Nullable<SSHCertificateReport>

    init(_ entry: SSHKeyRecord) {
        id = entry.key.id.rawValue
        label = Nullable(entry.key.label)
        policy = entry.key.policy.description
        backend = entry.key.backend
        fingerprint = entry.publicKey.fingerprint
        publicKey = entry.publicKey.line(comment: String(oneLine: entry.name))
        hosts = entry.settings.destinations.map(\.description)
        allowsForwarding = entry.settings.permitsForwarding
        signsAnything = entry.settings.signsAnything
        certificate = Nullable(entry.certificate.map(SSHCertificateReport.init))
    }

    var layout: Layout {
        .fields(
            14,
            [
                ("Key", Layout.Cell(id)),
                ("Label", Layout.Cell(label.value.map(printable) ?? "none")),
                ("Fingerprint", Layout.Cell(fingerprint)), ("Policy", Layout.Cell(policy)),
                (
                    "Hosts",
                    Layout.Cell(hosts.isEmpty ? "all" : printable(hosts.joined(separator: ", ")))
                ),
                ("Forwarding", allowsForwarding ? "allowed" : "refused"),
                ("Files", hosts.isEmpty ? nil : "refused, also git commits"),
                ("Data", signsAnything ? "signs data of any kind" : nil),
                ("Certificate", certificate.value?.summary),
            ])
    }
}

/// A certificate of an SSH key.
struct SSHCertificateReport: Encodable, Sendable {
    let keyID: String
    let principals: [String]
    let authority: String
    /// The start of its validity; nil if it has none.
    let validAfter: Nullable<Date>
    /// The end of its validity; nil if it does not end.
    let validBefore: Nullable<Date>
    private let validity: SSHCertificate.Validity

    private enum CodingKeys: CodingKey {
        case keyID, principals, authority, validAfter, validBefore
    }

    init(_ certificate: SSHCertificate) {
        keyID = certificate.keyID
        principals = certificate.principals
        authority = certificate.authorityFingerprint
        validity = certificate.validity
        validAfter = Nullable(
            certificate.validAfter == 0 ? nil : Self.date(certificate.validAfter))
        validBefore = Nullable(Self.date(certificate.validBefore))
    }

    /// - Returns: nil for times that no calendar shows: 2⁶⁴ - 1 seconds mean that there is no end.
    private static func date(_ seconds: UInt64) -> Date? {
        seconds > UInt64(UInt32.max) * 4 ? nil : Date(timeIntervalSince1970: Double(seconds))
    }

    var summary: Layout.Cell {
        let users = principals.isEmpty ? "all users" : principals.joined(separator: ", ")
        let words = printable("\(keyID), for \(users)")
        let note = validity.note.map { " (\($0): servers refuse it)" } ?? ""
        let (limit, word) =
            validity == .notYet ? (validAfter.value, "from") : (validBefore.value, "until")
        return limit.map { Layout.Cell($0) { "\(words), \(word) \($0)\(note)" } }
            ?? Layout.Cell(words + note)
    }
}
