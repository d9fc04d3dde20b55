import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeyPresence
import LatchkeySSH
import LatchkeyServices
import LatchkeyTPM

/// `latchkey pin`.
struct PINCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pin",
        abstract: "Change the PIN of the container's keys, and show the attempts left.",
        subcommands: [Change.self, Status.self])
}

extension PINCommand {
    /// `latchkey pin change`.
    struct Change: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "change",
            abstract: "Change the PIN of everything PIN-protected in the container.",
            discussion: """
                Prompts for the current PIN, then for the new PIN. With the presence broker you have one PIN for all keys, \
                vaults and credentials in the TPM, and the change applies to all; a sign-in to Linux takes only a PIN of 6 to \
                16 digits. In a TPM without the presence broker each \
                key has its own PIN, and the vaults and credentials share another one: if they differ, name one key \
                (‘latchkey key list --all’ shows also that of biometric login), or use --secrets for the vaults and \
                credentials. If there are several, the command asks at a terminal whether they are the same now, because \
                another PIN would count as a wrong one. A token has one PIN for all keys.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        @Argument(
            help: ArgumentHelp(
                "Change only this key's PIN: its ID, the first 4 or more characters of it, or its label.",
                valueName: "id"), completion: NameCompletion.keys)
        var key: KeyIDArgument?

        @Flag(help: "Change only the PIN of the vaults and credentials.") var secrets = false

        func validate() throws {
            guard key == nil || !secrets else {
                throw ValidationError("Name a key or give --secrets, not both.")
            }
        }

        var operation: String? {
            // Not the argument: it may be a PIN.
            if key != nil { return "change the PIN of a key" }
            return secrets ? "change the PIN of the vaults and credentials" : "change the PIN"
        }

        func perform(in context: CommandContext) async throws -> BriefReport {
            let records = try await context.records()
            let (scope, name) = try await scope(in: records)
            if case .container = scope { try await checkIsUsed(in: records, context) }
            // A token has one PIN, whatever the user names.
            let isToken = context.settings.token != nil
            var canDiffer = false
            if case .container = scope, !isToken {
                canDiffer = try await !records.hasOnlyUserPIN()
            }
            if canDiffer { try await confirm(try await records.pinHolders(), in: context) }
            let prompt = context.prompt("change the PIN of \(isToken ? "the token" : name)")
            do {
                let count = try await records.changePIN(
                    of: scope, for: prompt, authorizedBy: context.presence)
                let container = context.settings.container
                let place = "of the container ‘\(printable(container))’"
                return BriefReport(
                    [
                        "container": .string(container),
                        "changed": .number(Double(count.keys + count.classes)),
                    ],
                    text: isToken
                        ? "The token has the new PIN, which applies to all its keys that require a PIN."
                        : "The new PIN is set for \(printable(changed(count) ?? name)) \(place).")
            } catch {
                guard error.code == .wrongProof, canDiffer else { throw error }
                throw error.with(
                    recovery: error.recoveryAction.then("Nothing was changed.").then(
                        Self.oneAtATime))
            }
        }

        /// Checks that something in the container has a PIN, if the presence broker manages the user's:
        /// only a key can prove it, so a PIN that no key needs has another next step.
        ///
        /// - Throws: ``KeystoreError`` with code `notFound`.
        private func checkIsUsed(
            in records: RecordContainer, _ context: CommandContext
        ) async throws(KeystoreError) {
            guard try await records.pinHolders().names.isEmpty,
                let keystore = records.keystore as? TPMKeystore,
                try await keystore.userPINStatus(through: context.presence) != nil
            else { return }
            throw .notFound(
                "no key, vault or credential of the container ‘\(records.name)’ needs your PIN",
                recovery:
                    "Create a key with the policy ‘pin’, which asks for the PIN that you have, and change it then. If you forgot "
                    + "it, an administrator can remove it: ‘sudo latchkey broker forget \"$USER\"’. The keys that need it "
                    + "are lost, and the next new key sets a new PIN.")
        }

        /// The part of the container whose PIN changes, and its name for prompts and results.
        private func scope(in records: RecordContainer) async throws -> (PINScope, String) {
            guard let key else {
                guard !secrets else { return (.classes, PINHolders.secrets) }
                return (.container, try await records.pinHolders().text)
            }
            let named: HardwareKey
            if let record = try await records.named(key) {
                named =
                    record.kind == SSHKeyRecord.kind
                    ? try SSHKeyRecord(record).key : try await records.storedKey(key).key
            } else if let login = try await records.loginKey(key) {
                named = login
            } else {
                do throws(KeystoreError) {
                    named = try await records.storedKey(key).key
                } catch {
                    guard error.code == .notFound else { throw error }
                    throw error.with(
                        reason: "the container ‘\(records.name)’ has no key with the given name",
                        recovery: error.recoveryAction.then(
                            "‘latchkey pin change --secrets’ changes the PIN of the vaults and credentials."
                        ))
                }
            }
            try records.checkPlace(of: named)
            guard named.policy.hasPIN else {
                throw KeystoreError.notFound(
                    "the key ‘\(named.name)’ has no PIN (its policy is ‘\(named.policy)’)",
                    recovery: "‘latchkey key list’ shows the policies of the keys.")
            }
            return (.key(named.id), "the key ‘\(named.name)’")
        }

        /// Asks at a terminal whether several PINs are the same now, before one of them is prompted
        /// for: the hardware counts the PIN of one key as a wrong one for another.
        private func confirm(
            _ holders: PINHolders, in context: CommandContext
        ) async throws(KeystoreError) {
            guard holders.names.count > 1, context.presence.isInteractive,
                TerminalPresence.isPresent()
            else { return }
            let question =
                "This changes the PIN of \(holders.text). Each of them must have the same PIN now: another PIN counts as a "
                + "wrong one."
            guard try await TerminalQuestion.isConfirmed(printable(question)) else {
                throw .cancelled("it was not confirmed that all have the same PIN").with(
                    recovery: Self.oneAtATime)
            }
        }

        private static let oneAtATime: Recovery =
            "Change the PINs one at a time: ‘latchkey pin change KEY’, also for the key of biometric login, and ‘latchkey pin change --secrets’ for the vaults and credentials."

        /// The changed part of the container if the user named none; nil otherwise.
        private func changed(_ count: (keys: Int, classes: Int)) -> String? {
            guard key == nil, !secrets else { return nil }
            let keys = count.keys == 1 ? "one key" : "\(count.keys) keys"
            return switch count {
            case (_, 0): keys
            case (0, _): PINHolders.secrets
            default: "\(keys) and \(PINHolders.secrets)"
            }
        }
    }

    /// `latchkey pin status`.
    struct Status: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "status",
            abstract: "Show how many wrong PINs the hardware still accepts. Does not prompt.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        var operation: String? { "read the count of wrong PINs" }

        func perform(in context: CommandContext) async throws -> PINStatusReport {
            let records = try await context.records()
            if let own = try await context.userPINStatus(in: records) {
                return PINStatusReport(own, isOwn: true)
            }
            return PINStatusReport(try await records.keystore.pinStatus(), isOwn: false)
        }
    }
}

extension CommandContext {
    /// The user's own count of wrong PINs, that of a key or vault in the container, or that of the
    /// presence broker, which the next new key needs; nil if there is none. Does not prompt.
    func userPINStatus(in records: RecordContainer) async throws(KeystoreError) -> PINStatus? {
        if let own = try await records.userPINStatus() { return own }
        guard let keystore = records.keystore as? TPMKeystore,
            try await records.pinHolders().names.isEmpty
        else { return nil }
        return try await keystore.userPINStatus(through: presence)
    }
}

struct PINStatusReport: Report {
    let attemptsLeft: Nullable<Int>
    let attemptLimit: Nullable<Int>
    let lockedOut: Bool
    let lockedOutUntil: Nullable<Date>
    let recoverySeconds: Nullable<Int>
    /// Whether this is the user's own counter instead of the counter of the hardware.
    private let isOwn: Bool
    private let isCountLow: Bool

    private enum CodingKeys: String, CodingKey {
        case attemptsLeft, attemptLimit, lockedOut, lockedOutUntil, recoverySeconds
    }

    init(_ status: PINStatus, isOwn: Bool) {
        self.isOwn = isOwn
        isCountLow = status.isCountLow
        attemptsLeft = Nullable(status.attemptsLeft)
        attemptLimit = Nullable(status.attemptLimit)
        lockedOut = status.isLockedOut
        lockedOutUntil = Nullable(status.lockedOutUntil)
        recoverySeconds = Nullable(status.recoverySeconds)
    }

    var layout: Layout {
        guard !(lockedOut && isOwn) else {
            return Layout(
                """
                The TPM no longer accepts your PIN after too many wrong PINs. Use your finger, which resets the counter. \
                Otherwise ask an administrator to reset it, or to remove a PIN that you forgot; see ‘man latchkey-presenced’.
                """)
        }
        guard !lockedOut else {
            func words(_ end: String) -> String {
                "The hardware is locked and accepts no PIN\(end). ‘latchkey doctor’ shows the next step."
            }
            let cell =
                lockedOutUntil.value.map { Layout.Cell($0) { words(" until \($0) at the latest") } }
                ?? Layout.Cell(words(""))
            return .entry([], cell)
        }
        let isUnlimited = recoverySeconds.value == 0
        let unknown =
            isUnlimited
            ? "unlimited" : isCountLow ? "few (a wrong PIN was entered before)" : "unknown"
        let counts = Layout.fields(
            17,
            [
                ("Attempts left", Layout.Cell(attemptsLeft.value.map { "\($0)" } ?? unknown)),
                ("Attempt limit", attemptLimit.value.map { Layout.Cell("\($0)") }),
            ])
        guard let seconds = recoverySeconds.value, !isUnlimited else { return counts }
        return counts.then(Layout("One attempt is restored every \(seconds) s"))
    }
}
