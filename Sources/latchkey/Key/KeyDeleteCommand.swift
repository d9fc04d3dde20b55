import ArgumentParser
import Latchkey
import LatchkeyPKCS11

/// `latchkey key delete`.
struct KeyDeleteCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete",
        abstract: "Delete a key for good.",
        discussion: "A token deletes a key that has a PIN only for who knows it; a TPM asks nobody.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: ArgumentHelp("The key's id.", valueName: "id"))
    var key: KeyIDArgument

    @Flag(help: "Forget the key here, whatever the hardware keeps of it: for a token that is lost or can't delete.")
    var forget = false

    func perform(in context: CommandContext) async throws -> RevokingReport<KeyDeletionReport> {
        let records = try await context.records()
        let (stored, generation) = forget ? try await records.storedKey(key) : try await records.usableKey(key)
        try await records.checkIsOwn(stored, to: "delete a key")
        guard stored.id.rawValue == key.text else {
            throw KeystoreError.invalidInput("delete a key", "deleting takes the whole id, ‘\(stored.id)’")
        }
        let prompt = context.prompt("delete the key ‘\(stored.label ?? stored.id.rawValue)’")
        // The hardware first, since somebody may say no there. A key that is gone from it can be deleted again. What the
        // hardware can take back is noted with the deletion of its record.
        if !forget, !stored.isRevocable {
            try await records.keystore.delete(stored, for: prompt, authorizedBy: context.presence)
        }
        try await records.apply([.delete(RecordID(stored.id), ifGeneration: generation)], for: prompt)
        let isGone = try await takeBack(stored, in: records)
        return await context.afterRevoking(
            KeyDeletionReport(id: stored.id.rawValue, deleted: isGone && !PKCS11Keystore.isAdopted(stored)), in: records
        )
    }

    /// Has the hardware take back what it can. To forget does not depend on that: what it can't do now stays noted.
    ///
    /// - Returns: Whether the hardware has nothing of the key any more.
    private func takeBack(_ key: HardwareKey, in records: RecordContainer) async throws -> Bool {
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

struct KeyDeletionReport: Report {
    let id: String
    /// Whether the hardware has nothing of it any more either.
    let deleted: Bool

    var text: String { deleted ? "The key \(id) is deleted." : "The key \(id) is forgotten; the hardware may have it." }
}
