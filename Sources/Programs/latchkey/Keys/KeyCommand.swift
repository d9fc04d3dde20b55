import ArgumentParser
import FoundationEssentials
import Latchkey
internal import LatchkeyJOSE
import LatchkeyPKCS11
import LatchkeySSH
import LatchkeyServices

/// `latchkey key`.
struct KeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "key",
        abstract: "Create and use keys in the hardware.",
        discussion: """
            A label names one key of a container in all commands, also in those of ‘latchkey ssh’ and ‘latchkey pin’. \
            These keys have different labels.
            """,
        subcommands: [
            Create.self, List.self, Show.self, Sign.self, Export.self, CSR.self, Attest.self,
            Rename.self, Delete.self,
        ])
}

extension KeyCommand {
    /// `latchkey key list`.
    struct List: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "List the container's keys, oldest first. Does not use the hardware.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        @Flag(help: "Include the keys of biometric login and the locker.") var all = false

        var operation: String? { "list the keys" }

        func perform(in context: CommandContext) async throws -> KeyListReport {
            let records = try await context.records()
            let reports = try await records.keys().compactMap { record in
                record.key.map { key in
                    KeyReport(key, in: context.describing(key, in: records), usedBy: record.owner)
                }
            }
            let shown = reports.filter { all || $0.isOwn }
            return KeyListReport(
                keys: shown, hidden: reports.count - shown.count, place: context.place)
        }
    }

    /// `latchkey key show`.
    struct Show: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "show", abstract: "Show a key. Does not use the hardware.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: KeyIDArgument.help, completion: NameCompletion.keys)
        var key: KeyIDArgument

        var operation: String? { "show the key" }

        func perform(in context: CommandContext) async throws -> KeyReport {
            let records = try await context.records()
            do throws(KeystoreError) {
                let key = try await records.storedKey(key).key
                return KeyReport(key, in: context.describing(key, in: records))
            } catch {
                if error.code == .conflict, let key = try await records.named(self.key)?.key {
                    return KeyReport(
                        key, in: context.describing(key, in: records), usedBy: KeyReport.sshUse)
                }
                guard error.code == .notFound, let key = try await records.loginKey(self.key)
                else { throw error }
                return KeyReport(key, in: context.describing(key, in: records), usedBy: "login")
            }
        }
    }
}

extension CommandContext {
    /// The keystore that describes a stored key, also if other hardware is configured. A key that
    /// names no keystore has unreadable bytes, which no keystore describes as attestable.
    fileprivate func describing(_ key: HardwareKey, in records: RecordContainer) -> any Keystore {
        (try? settings.keystore(of: key, in: records.store)) ?? records.keystore
    }
}

struct KeyListReport: Report {
    let keys: [KeyReport]
    /// The number of keys of biometric login and the locker that the list leaves out.
    let hidden: Int
    /// The value of ``CommandContext/place``.
    let place: String

    private enum CodingKeys: CodingKey {
        case keys
    }

    var layout: Layout {
        guard !keys.isEmpty else {
            return Layout(
                hidden == 0
                    ? "There are no keys\(place)."
                    : "There are no keys that you created\(place). --all lists the keys of biometric login and the locker."
            )
        }
        let rows = keys.map { key in
            let label = printable(key.label.value ?? "")
            let use = key.usedBy.map { " (used by \($0))" } ?? ""
            let copies = key.isRevocable ? " (revocable)" : ""
            return Layout.Row(
                script: "\(key.id)  \(key.policy)  \(key.assurance)  \(label)\(copies)\(use)",
                cells: [
                    Layout.Cell(label), Layout.Cell(String(key.id.prefix(8))),
                    Layout.Cell(key.policy), Layout.Cell(key.assurance),
                    Layout.Cell(key.isRevocable ? "yes" : ""), Layout.Cell(key.usedBy ?? ""),
                ])
        }
        return .table(["LABEL", "ID", "POLICY", "ASSURANCE", "REVOCABLE", "USED BY"], rows)
    }
}

/// A key without secrets.
struct KeyReport: Report {
    let id: String
    let label: Nullable<String>
    let policy: String
    let assurance: String
    let enforcedPresence: String
    /// The counter of wrong PINs: `device` for the counter of the hardware, `user` for a counter of
    /// this user; nil for a key without a PIN, and for a software token.
    let pinProtection: Nullable<String>
    let backend: String
    /// The RFC 7512 URI of a token's key, with the token and the key's `id`.
    let uri: Nullable<String>
    let createdAt: Date
    let publicKeyJWK: JWK
    /// Whether the hardware can revoke the key for every copy of the store.
    let isRevocable: Bool
    /// Whether the hardware can prove to servers that the key is in it, in the forms of the
    /// standards.
    let isAttestable: Bool
    /// The value of ``usedBy`` for a key that latchkey-agent offers.
    static let sshUse = "ssh"

    /// `locker` or `login` for a key that belongs to the locker or to biometric login, `ssh` for a
    /// key of latchkey-agent; nil for other keys.
    let usedBy: String?

    /// Whether the user created the key, and not the locker or biometric login.
    var isOwn: Bool { usedBy == nil || usedBy == Self.sshUse }

    init(_ key: HardwareKey, in keystore: any Keystore, usedBy use: String? = nil) {
        usedBy = use
        isAttestable = keystore.isAttestable(key)
        id = key.id.rawValue
        label = Nullable(key.label)
        policy = key.policy.description
        assurance = key.assurance.description
        enforcedPresence = key.assurance.presence.rawValue
        pinProtection = Nullable(key.assurance.pinProtection?.rawValue)
        backend = key.backend
        uri = Nullable(
            key.backend == PKCS11Keystore.backend ? try? PKCS11Keystore.location(of: key) : nil)
        createdAt = key.createdAt
        publicKeyJWK = JWK(key.publicKey, kid: key.id)
        isRevocable = key.isRevocable
    }

    var layout: Layout {
        let pinGuard =
            switch pinProtection.value {
            case "user": "a counter of your own; your finger or an administrator resets it"
            case "device": "the counter of the hardware, shared by all its users"
            default:
                AssuranceLevel.EnforcedPresence(rawValue: enforcedPresence)?.includesPIN == true
                    ? "none: a software token may accept any number of wrong PINs"
                    : "none: the key has no PIN"
            }
        let enforcement =
            enforcedPresence == AssuranceLevel.EnforcedPresence.unknown.rawValue
            ? "may work without the PIN: the card does not prove the key's PIN policy"
            : "enforces \(enforcedPresence)"
        let provability =
            if !isAttestable {
                "no"
            } else if backend == PKCS11Keystore.backend {
                "yes: servers can verify that it is in the hardware"
            } else {
                "yes, if the TPM has an endorsement certificate: see ‘latchkey attestation show’"
            }
        return .fields(
            12,
            [
                ("Key", Layout.Cell(id)),
                ("Label", Layout.Cell(label.value.map(printable) ?? "none")),
                ("Policy", Layout.Cell(policy)),
                ("Assurance", Layout.Cell("\(assurance), \(enforcement)")),
                ("PIN guard", Layout.Cell(pinGuard)), ("Backend", Layout.Cell(printable(backend))),
                (
                    "Revocable",
                    isRevocable ? "yes: the TPM can revoke it in all copies of the store" : "no"
                ), ("Provable", Layout.Cell(provability)),
                (
                    "Where",
                    Layout.Cell(uri.value.map(printable) ?? "in the store, wrapped by the TPM")
                ), ("Created", Layout.Cell(createdAt)), ("Used by", usedBy.map { Layout.Cell($0) }),
            ])
    }
}

/// An argument that names a key: its ID, its label, or the first characters of the ID, in this order.
struct KeyIDArgument: ExpressibleByArgument {
    static let help = ArgumentHelp(
        "The key's ID, the first 4 or more characters of it, or its label.", valueName: "id")

    let text: String

    init?(argument: String) {
        guard !argument.isEmpty else { return nil }
        text = argument
    }

    /// Whether this is the key's complete ID.
    func isID(of key: HardwareKey) -> Bool { key.id.rawValue.lowercased() == text.lowercased() }

    /// Whether this is the key's label. Text with the form of a complete ID is never a label.
    func isLabel(of key: HardwareKey) -> Bool {
        UUID(uuidString: text) == nil && key.label == text
    }

    /// Whether this is the beginning of the key's ID.
    func isPrefix(of key: HardwareKey) -> Bool {
        IDPrefix(text)?.begins(key.id.rawValue) == true
    }

    /// Whether this names the key.
    func matches(_ key: HardwareKey) -> Bool { isLabel(of: key) || isPrefix(of: key) }

    /// The error for several keys of a container that this names.
    func ambiguity(of keys: [HardwareKey], in container: String) -> KeystoreError {
        let names = keys.prefix(5).map {
            $0.label == text ? "\($0.id) has this label" : "\($0.id) begins with it"
        }
        return KeystoreError(
            code: .invalidInput,
            reason: "‘\(text)’ names \(keys.count) keys of the container ‘\(container)’: "
                + names.joined(separator: ", ") + (keys.count > 5 ? ", …" : ""),
            recovery: "Use the complete ID.")
    }
}
