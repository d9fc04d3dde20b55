package import Latchkey

/// The row of a key to which a server binds tokens (RFC 9449): reads, creates, replaces and deletes
/// the key, for all facades.
///
/// Several programs may use one row. Each change names the generation of the row that it has read, so
/// that no program overwrites or deletes the key of another.
package struct DPoPKeyRow: Sendable {
    private let id: RecordID
    private let kind: String
    /// The server and client. A key with other attributes is another server's: it is not used.
    private let attributes: [String: String]
    /// The name of the key on a token.
    private let label: String?
    private let records: RecordContainer

    package init(
        _ id: RecordID, kind: String, attributes: [String: String] = [:], label: String?,
        in records: RecordContainer
    ) {
        (self.id, self.kind, self.attributes) = (id, kind, attributes)
        (self.label, self.records) = (label, records)
    }

    /// The stored key, verified; nil without one.
    package func stored(
        for prompt: PromptContext, authorizedBy presence: any PresenceAuthority = NobodyPresent()
    ) async throws(CommonError) -> HardwareKey? {
        key(of: try await records.read(id, for: prompt, authorizedBy: presence)?.record)
    }

    /// The stored key, or a new one without user verification, which replaces another server's.
    ///
    /// - Returns: nil if this hardware has no keys without user verification.
    package func storedOrNew(
        for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(CommonError) -> HardwareKey? {
        let old = try await records.read(id, for: prompt, authorizedBy: presence)?.record
        if let key = key(of: old) { return key }
        let made: HardwareKey
        do throws(CommonError) {
            made = try await records.createKey(
                KeyRequest(policy: .none, label: label, prompt: prompt), revocably: .never,
                authorizedBy: presence
            ).key
        } catch {
            guard error.code == .unsupported else { throw error }
            return nil
        }
        do throws(CommonError) {
            _ = try await records.apply(
                [put(made, ifGeneration: old?.generation ?? 0)], for: prompt,
                authorizedBy: presence)
        } catch {
            try? await records.discard(made)
            guard error.code == .conflict else { throw error }
            // Another program stored its key first.
            return try await storedOrNew(for: prompt, authorizedBy: presence)
        }
        // Only a token keeps data of the key, and may refuse to delete it.
        if let replaced = old?.key { try? await records.discard(replaced) }
        return made
    }

    /// Deletes a key that this hardware cannot use, unless another program has replaced it.
    package func forget(
        _ key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority = NobodyPresent()
    ) async {
        guard let change = try? await deletion(of: key, in: records.metadata(id)),
            (try? await records.apply([change], for: prompt, authorizedBy: presence)) != nil
        else { return }
        try? await records.discard(key)
    }

    /// The change that stores the key of a new token again: removing the last other token can have
    /// deleted it during the login, and a removal at the same time must see the change.
    ///
    /// - Throws: ``DPoPFailure/lostKey(_:)`` if another program has replaced the key since.
    package func insertion(of key: HardwareKey) async throws -> RecordChange {
        try insertion(of: key, over: try await records.metadata(id))
    }

    /// ``insertion(of:)`` on the caller's thread.
    package func insertionNow(of key: HardwareKey) throws -> RecordChange {
        try insertion(of: key, over: try records.metadataNow(id))
    }

    private func insertion(
        of key: HardwareKey, over stored: Record?
    ) throws(DPoPFailure) -> RecordChange {
        guard stored == nil || self.key(of: stored)?.id == key.id else {
            throw DPoPFailure.lostKey(nil)
        }
        return put(key, ifGeneration: stored?.generation ?? 0)
    }

    /// The key with this thumbprint, and the change that deletes its row; nil if the row has another
    /// key.
    package func deletion(
        ofKey thumbprint: String
    ) throws(CommonError) -> (key: HardwareKey, change: RecordChange)? {
        let stored = try records.metadataNow(id)
        guard let key = stored?.key, key.publicKey.thumbprint == thumbprint,
            let change = deletion(of: key, in: stored)
        else { return nil }
        return (key, change)
    }

    private func deletion(of key: HardwareKey, in stored: Record?) -> RecordChange? {
        guard let stored, stored.key?.id == key.id else { return nil }
        return .delete(id, ifGeneration: stored.generation)
    }

    private func key(of record: Record?) -> HardwareKey? {
        record?.attributes == attributes ? record?.key : nil
    }

    private func put(_ key: HardwareKey, ifGeneration: Int) -> RecordChange {
        .put(
            Record(id: id, kind: kind, attributes: attributes, key: key), payload: nil,
            ifGeneration: ifGeneration)
    }
}
