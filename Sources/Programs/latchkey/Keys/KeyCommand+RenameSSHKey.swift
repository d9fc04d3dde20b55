import Latchkey
import LatchkeySSH
import LatchkeyServices

extension KeyCommand.Rename {
    /// Changes the label of an SSH key. Its settings and its certificate stay.
    ///
    /// - Parameter found: The record that the argument names. It is read again and verified.
    func renameSSHKey(
        _ found: SSHKeyRecord, in context: CommandContext
    ) async throws -> KeyReport {
        let records = try await context.sshRecords()
        let isNew = found.key.label != label
        if isNew { try await records.checkIsFree(label: label) }
        let prompt = context.prompt("rename the SSH key ‘\(found.name)’ to ‘\(label)’")
        let presence = context.presence
        var entry = try await records.verifiedSSHKey(
            found.key.id, for: prompt, authorizedBy: presence)
        let keystore = try context.settings.keystore(of: entry.key, in: records.store)
        entry.key = try await keystore.rename(
            entry.key, to: label, for: prompt, authorizedBy: presence)
        let stored = try await records.store(
            entry, if: isNew ? records.isFree(label: label) : nil, for: prompt,
            authorizedBy: presence)
        return KeyReport(stored.key, in: keystore, usedBy: KeyReport.sshUse)
    }
}
