import ArgumentParser
import Latchkey
import LatchkeyJOSE
import LatchkeyPKCS11
import LatchkeySSH
import LatchkeyServices

extension KeyCommand {
    /// `latchkey key create`.
    struct Create: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "create",
            abstract: "Create a P-256 key in the hardware.",
            discussion: """
                If --token names a key (id= or object=), the command adopts that key instead of creating one. A PIN-protected \
                key on a token has the token's PIN. A YubiKey prompts for the management key first.

                A --revocable key takes space in the TPM. After you delete it, no copy of the store can sign with \
                it. After you change its PIN, no copy can sign with the old PIN. A person who had the PIN and used \
                the TPM before may have read the secret that authorizes the key. If the hardware cannot revoke keys, \
                the command fails.
                """)

        static let createsStore = true

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        @Option(
            help: """
                The user verification that the hardware requires for each use of the key. (default: pin, or the \
                setting minimum-policy if pin does not meet it)
                """)
        var policy: AccessPolicy?

        @Option(
            help: ArgumentHelp(
                "The time for which one fingerprint, or PIN of a token, is valid for further uses: 0 to 300 seconds.",
                valueName: "seconds"))
        var reuse = 0

        @Option(
            help: """
                A label for the key, which can replace its ID. No other key of the container may have it, also no SSH \
                key.
                """)
        var label: String?

        @Option(
            help: ArgumentHelp(
                "The slot of a PIV card in which to create the key, such as 9a.", valueName: "slot")
        )
        var slot: PIVSlotArgument?

        @Flag(help: "Create a key that the TPM can revoke in every copy of the store, or fail.")
        var revocable = false

        @Flag(help: "Create a key for latchkey-agent: see ‘latchkey ssh’.") var ssh = false

        func validate() throws {
            if let label { try KeyCommand.check(label: label) }
            guard
                reuse == 0 || AccessPolicy(wanted.requirement, reuseSeconds: reuse) != nil
            else {
                throw ValidationError(
                    "--reuse is 0 to 300 seconds, for a policy with user verification.")
            }
            guard !ssh || wanted != .none else {
                throw ValidationError(
                    "An SSH key has a policy with user verification. ‘latchkey ssh add --without-verification’ adds another key."
                )
            }
        }

        /// The policy without the rule of the settings.
        private var wanted: AccessPolicy { policy ?? .pin }

        var operation: String? { "create a key" }

        func perform(in context: CommandContext) async throws -> KeyReport {
            let policy = try context.settings.policy(policy) ?? wanted
            if slot != nil, context.settings.token == nil {
                context.console.warn(
                    "--slot has no effect: only the keys of PIV cards have slots, and no token is configured."
                )
            }
            let records = try await context.records(slot: slot?.slot)
            if let label { try await checkLabel(label, in: records) }
            let prompt = context.prompt("protect the new key\(label.map { " ‘\($0)’" } ?? "")")
            // A crash can leave unused keys in the hardware, which take up space.
            if revocable { try? await records.finishRevocations() }
            // A token deletes a key with the proof with which it created the key.
            let presence: any PresenceAuthority =
                context.settings.token == nil
                ? context.presence : PresenceSession(context.presence)
            let made = try await records.createKey(
                KeyRequest(
                    policy: AccessPolicy(policy.requirement, reuseSeconds: reuse) ?? policy,
                    label: label, prompt: prompt),
                revocably: revocable ? .required : .never,
                authorizedBy: presence)
            defer { withExtendedLifetime(made) {} }
            let key = made.key
            let condition = label.map(records.isFree(label:))
            do {
                if ssh {
                    try await context.sshRecords().store(
                        SSHKeyRecord(key), if: condition, for: prompt, authorizedBy: presence)
                } else {
                    try await records.apply(
                        [.put(Record(key: key), payload: nil, ifGeneration: 0)], if: condition,
                        for: prompt)
                }
            } catch {
                await KeyCommand.discard(
                    key, in: records, for: prompt, authorizedBy: presence, context)
                throw error
            }
            if ssh {
                context.console.say(
                    "There is no copy of this key elsewhere: no backup restores it on other hardware."
                )
            }
            return KeyReport(key, in: records.keystore, usedBy: ssh ? KeyReport.sshUse : nil)
        }

        /// Checks that no other key has the label. Names other hardware as the cause if the other key
        /// is in it.
        private func checkLabel(
            _ label: String, in records: RecordContainer
        ) async throws(KeystoreError) {
            do throws(KeystoreError) {
                try await records.checkIsFree(label: label)
            } catch {
                guard error.code == .conflict, try await records.isForeign() else { throw error }
                throw KeystoreError(
                    code: .wrongDevice,
                    reason:
                        "the container ‘\(records.name)’ belongs to other hardware: \(error.reason)",
                    recovery: Recovery(
                        "Use the hardware that created it. Nothing was changed.", .resetStore))
            }
        }
    }

    /// Deletes a new key that is in no record: no command can name it.
    private static func discard(
        _ key: HardwareKey, in records: RecordContainer, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority, _ context: CommandContext
    ) async {
        do throws(KeystoreError) {
            guard !key.isRevocable else { return try await records.discard(key) }
            try await records.keystore.delete(key, for: prompt, authorizedBy: presence)
        } catch {
            context.console.warn(
                "The new key \(key.id) is not stored, and stays in the hardware: \(printable(error.reason))."
            )
        }
    }

    /// `latchkey key rename`.
    struct Rename: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "rename",
            abstract: "Change a key's label.",
            discussion: """
                If the key has its own PIN or is revocable, its authorization depends on the label, and the TPM changes \
                it. The command then prompts for the key's own PIN, if it has one. It renames SSH keys too; their \
                settings stay.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: KeyIDArgument.help, completion: NameCompletion.keys)
        var key: KeyIDArgument
        @Argument(help: "The new label, 1 to 256 bytes.") var label: String

        func validate() throws { try KeyCommand.check(label: label) }

        var operation: String? { "rename a key" }

        func perform(in context: CommandContext) async throws -> KeyReport {
            let records = try await context.records()
            try records.store.checkWritable()
            if let record = try await records.named(key), record.kind == SSHKeyRecord.kind {
                return try await renameSSHKey(SSHKeyRecord(record), in: context)
            }
            let own = try await records.ownKey(key)
            let stored = own.key
            let isNew = stored.label != label
            if isNew { try await records.checkIsFree(label: label) }
            let prompt = context.prompt("rename the key ‘\(stored.name)’ to ‘\(label)’")
            let renamed = try await records.keystore.rename(
                stored, to: label, for: prompt, authorizedBy: context.presence)
            try await records.apply(
                [.put(Record(key: renamed), payload: nil, ifGeneration: own.generation)],
                if: isNew ? records.isFree(label: label) : nil, for: prompt)
            return KeyReport(renamed, in: records.keystore)
        }
    }

    /// `latchkey key delete`.
    struct Delete: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "delete",
            abstract: "Delete a key.",
            discussion: """
                A copy of the store can still use a key in the TPM that is not revocable. \
                At a terminal, asks for confirmation; without a terminal, requires --yes. \
                Deleting a PIN-protected key from a token prompts for the PIN. Deleting a key from the TPM does not.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: ArgumentHelp("The key's complete ID.", valueName: "id")) var key:
            KeyIDArgument

        @Flag(
            help: """
                Delete the local record even if the hardware keeps the key: for a token that is lost or cannot delete \
                keys.
                """)
        var forget = false

        @Flag(help: Confirmation.help) var yes = false

        var operation: String? { "delete a key" }

        func perform(in context: CommandContext) async throws -> RevokingReport<BriefReport> {
            let records = try await context.records()
            try records.store.checkWritable()
            let own = try await records.ownKey(key, isUsed: !forget)
            let stored = own.key
            guard stored.id.rawValue.lowercased() == key.text.lowercased() else {
                throw KeystoreError(
                    code: .invalidInput, reason: "deleting requires the complete ID",
                    recovery: "Run ‘latchkey key delete \(stored.id)’.")
            }
            let copies =
                isInCopies(stored) ? Confirmation.copies : "No copy of the store can use it then."
            try await Confirmation.check(
                "The key ‘\(stored.name)’ will be deleted. \(copies)", isGiven: yes)
            let prompt = context.prompt("delete the key ‘\(stored.name)’")
            // The hardware first, because the user may cancel its prompt. Deleting a key again that
            // the hardware no longer has succeeds. For a revocable key, deleting the record also
            // reserves the revocation.
            if !forget, !stored.isRevocable {
                try await records.keystore.delete(
                    stored, for: prompt, authorizedBy: context.presence)
            }
            try await records.apply(
                [.delete(RecordID(stored.id), ifGeneration: own.generation)], for: prompt)
            let isDeleted =
                try await revoke(stored, in: records) && !PKCS11Keystore.isAdopted(stored)
            let report = BriefReport(
                ["id": .string(stored.id.rawValue), "deleted": .bool(isDeleted)],
                text: isDeleted
                    ? "The key \(stored.id) is deleted."
                        + (isInCopies(stored) ? " A copy of the store can still use it." : "")
                    : "The record of the key \(stored.id) is deleted; the hardware may still have the key."
            )
            return await context.afterRevoking(report, in: records)
        }

        /// Whether copies of the store can use the key after its deletion: the TPM keeps no list of the
        /// keys that it has wrapped.
        private func isInCopies(_ key: HardwareKey) -> Bool {
            key.backend != PKCS11Keystore.backend && !key.isRevocable
        }

        /// Revokes a revocable key in the hardware. With --forget, a failure leaves the revocation
        /// pending.
        ///
        /// - Returns: Whether the hardware no longer has the key.
        private func revoke(_ key: HardwareKey, in records: RecordContainer) async throws -> Bool {
            guard key.isRevocable else { return !forget }
            do {
                try await records.discard(key)
                return true
            } catch {
                guard forget else { throw error }
                return false
            }
        }
    }
}

extension KeyCommand {
    fileprivate static func check(label: String) throws {
        do throws(KeystoreError) {
            try KeyRequest.check(label: label)
        } catch {
            throw ValidationError(error.recovery)
        }
    }
}

/// An argument that names a slot of a PIV card: `9a`, `9c`, `9d`, `9e` or `82` to `95`.
struct PIVSlotArgument: ExpressibleByArgument {
    let slot: PIVSlot

    init?(argument: String) {
        guard let slot = PIVSlot(argument.lowercased()) else { return nil }
        self.slot = slot
    }
}
