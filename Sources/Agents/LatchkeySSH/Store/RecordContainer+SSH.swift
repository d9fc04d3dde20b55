package import Latchkey

extension RecordContainer {
    /// The SSH keys of the container, oldest first, as stored: not verified, without the hardware.
    /// The second list names the records that cannot be read.
    package func sshKeys() async throws(KeystoreError) -> (
        keys: [SSHKeyRecord], damaged: [KeystoreError]
    ) {
        var keys: [SSHKeyRecord] = []
        var damaged: [KeystoreError] = []
        for record in try await list(SSHKeyRecord.kind) {
            do throws(KeystoreError) { keys.append(try SSHKeyRecord(record)) } catch {
                damaged.append(error)
            }
        }
        return (keys, damaged)
    }

    /// Reads an SSH key and verifies its record with the container's device key.
    ///
    /// - Throws: ``KeystoreError``; `notFound` if there is no such key, `damaged` if another
    ///   program changed the record.
    package func verifiedSSHKey(
        _ id: KeyID, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SSHKeyRecord {
        guard
            let found = try await read(SSHKeyRecord.id(of: id), for: prompt, authorizedBy: presence)
        else {
            throw .notFound(
                "there is no SSH key ‘\(id)’",
                recovery: Recovery("List the SSH keys.", .listSSHKeys))
        }
        return try SSHKeyRecord(found.record)
    }

    /// Stores an SSH key in place of the record with the same generation.
    @discardableResult
    package func store(
        _ key: SSHKeyRecord, if condition: RecordCondition? = nil, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SSHKeyRecord {
        try key.checkVerification()
        let change = RecordChange.put(try key.record, payload: nil, ifGeneration: key.generation)
        let stored = try await apply(
            [change], if: condition, for: prompt, authorizedBy: presence)
        return try stored.first.map { record throws(KeystoreError) in try SSHKeyRecord(record) }
            ?? key
    }
}
