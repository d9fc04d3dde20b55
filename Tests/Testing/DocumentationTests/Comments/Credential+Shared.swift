import Latchkey
import LatchkeyCredentials

private func open(_ records: RecordContainer, _ presence: any PresenceAuthority) async throws {
    try await CredentialStore.bootstrap(CredentialStore(records: records, presence: presence))
}
