import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import Testing

extension Machine {
    /// Stores the login's rows in the format of versions that did not store the server.
    func forgetServers() async throws {
        let store = try await RecordStore(directory: directory.path(of: "data/latchkey"))
        let tcti = try #require(environment["LATCHKEY_TCTI"])
        let records = try RecordContainer(
            store: store, keystore: TPMKeystore(tcti: tcti, anchors: store))
        let prompt = PromptContext(reason: "forget the servers")
        for kind in ["login.session", "login.key", "login.pending", "login.hint", "login.identity"]
        {
            for listed in try await records.list(kind) {
                guard let found = try await records.read(listed.id, for: prompt) else { continue }
                var record = found.record
                record.attributes["issuer"] = nil
                record.attributes["client"] = nil
                try await records.apply(
                    [.put(record, payload: found.payload, ifGeneration: nil)], for: prompt)
            }
        }
    }
}
