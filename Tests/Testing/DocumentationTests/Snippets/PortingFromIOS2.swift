import Foundation
import Latchkey
import LatchkeyPresence
import LatchkeyTPM

/// Opens the store of an app, and returns its records and its prompts, which iOS provides.
func openRecords(of application: String) async throws -> (RecordContainer, any PresenceAuthority) {
    let environment = ProcessInfo.processInfo.environment
    let directory = try RecordStore.defaultDirectory(environment: environment)
    let store = try await RecordStore(directory: directory)
    let keystore = TPMKeystore(tcti: nil, anchors: store)
    return (
        try RecordContainer(name: application, store: store, keystore: keystore),
        PinentryPresence(environment: environment, application: application)
    )
}
