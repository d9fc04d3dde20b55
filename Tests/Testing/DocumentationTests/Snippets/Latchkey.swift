import Latchkey
import LatchkeyPresence
import LatchkeyTPM

/// A container whose keys are in this machine's TPM.
func openRecords(environment: [String: String]) async throws -> RecordContainer {
    let store = try await RecordStore(
        directory: RecordStore.defaultDirectory(environment: environment))
    let keystore = TPMKeystore(anchors: store)
    return try RecordContainer(store: store, keystore: keystore)
}
