package import Latchkey

extension RecordStore {
    /// Opens the store in the directory that the settings name; creates it if it does not exist.
    ///
    /// - Throws: The error of ``RecordStore/init(directory:)`` with the advice to select another
    ///   directory.
    package static func opened(configured directory: String) async throws(KeystoreError)
        -> RecordStore
    {
        do throws(KeystoreError) {
            return try await RecordStore(directory: directory)
        } catch {
            throw error.with(
                reason: "the store cannot be opened: \(error.reason)",
                recovery: error.recoveryAction.then(
                    "To select a directory, use --store or LATCHKEY_STORE."))
        }
    }
}
