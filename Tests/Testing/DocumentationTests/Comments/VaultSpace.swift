import Latchkey
import LatchkeyVault

private func open(_ records: RecordContainer, _ presence: any PresenceAuthority) async throws {
    try await VaultSpace.bootstrap(VaultSpace(records: records, presence: presence))
}
