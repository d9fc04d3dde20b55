internal import FoundationEssentials
public import Latchkey
internal import LatchkeyOAuth

extension Locker {
    /// Deletes an enrolment that can't be opened any more, where ``open()`` throws `storageCorrupted` or `wrongDevice`.
    /// Nothing that was encrypted can be decrypted again. Nobody is asked.
    ///
    /// Where the device's key still signs, its word that the enrolment is revoked is kept, and the next ``open()`` has the
    /// server hear of it. Else somebody has to remove the device at the server.
    ///
    /// - Returns: Whether the server will be told.
    /// - Throws: ``ErsteGroupAuthError`` when the store can't be written.
    @discardableResult
    public static func forget(in records: RecordContainer) async throws(ErsteGroupAuthError) -> Bool {
        let operation = "forget the enrolment"
        let prompt = PromptContext(reason: operation, container: records.name)
        do {
            let row = try await records.metadata(LockerRows.enrolmentID)
            let named = ["deviceKey", "easyAccess"].map { row?.attributes[$0].flatMap(KeyID.init) }
            var keys: [HardwareKey] = []
            for id in named.compactMap({ $0 }) {
                if let key = try? await records.metadata(RecordID(id))?.key { keys.append(key) }
            }
            let ids =
                [LockerRows.enrolmentID, LockerRows.offlineID, LockerRows.countersID] + keys.map { RecordID($0.id) }
            let families = row?.attributes["enrolment"].map(Enrolment.classes) ?? []
            let changes = ids.map { RecordChange.delete($0, ifGeneration: nil) }
            let classes = families.map { ClassChange.drop(prefix: $0.prefix) }
            let device = keys.first { $0.id == named[0] }
            let tombstone = await lastWord(of: device, issuer: row?.attributes["issuer"], records, prompt)
            var isKept = false
            if let tombstone {
                // A store that takes no new rows any more still lets go of old ones.
                let put = RecordChange.put(tombstone.record, payload: nil, ifGeneration: nil)
                isKept = (try? await records.apply([put], for: prompt)) != nil
            }
            _ = try await records.apply(changes, classes: classes, for: prompt, authorizedBy: NobodyPresent())
            for key in keys where !key.isRevocable { try? await records.keystore.delete(key) }
            // What the hardware can't do now is done at the next start.
            try? await records.finishRevocations()
            return isKept
        } catch {
            throw ErsteGroupAuthError(operation, any: error)
        }
    }

    /// The device's statement that it gives up; nil where its key is gone or can't sign.
    private static func lastWord(
        of key: HardwareKey?, issuer: String?, _ records: RecordContainer, _ prompt: PromptContext
    ) async -> Tombstone? {
        guard let key, let issuer else { return nil }
        let id = EnrolmentID.name(for: key.publicKey)
        let assertion = LockerAssertion(
            action: .revoke, issuer: issuer, enrolmentID: id, challenge: nil, key: key, issuedAt: Date())
        guard let input = try? assertion.signingInput(),
            let signature = try? await records.keystore.sign(
                MessageDigest(sha256: input.utf8), with: key, for: prompt, authorizedBy: NobodyPresent())
        else { return nil }
        return Tombstone(enrolmentID: id, issuer: issuer, statement: JWS.compact(input, signature: signature))
    }
}
