import Foundation
import Latchkey
import LatchkeyPasskeys
import LatchkeySimulators
import LatchkeyTPM
import Testing

extension Machine {
    /// A row of `Passkey`, whose initializer only its module has.
    private struct Row: Encodable {
        let id: Data
        let rpID: String
        let userID = Data("user".utf8)
        let userName = "jane"
        let protection = 1
        let isDiscoverable = true
        let key: HardwareKey
    }

    /// Stores a passkey for each site, as latchkey-passkeys does for a browser.
    ///
    /// - Returns: Their credential IDs in base64url.
    func storePasskeys(_ sites: String...) async throws -> [String] {
        let store = try await RecordStore(directory: directory.path(of: "data/latchkey"))
        let keystore = TPMKeystore(tcti: environment["LATCHKEY_TCTI"], anchors: store)
        let passkeys = PasskeyStore(records: try RecordContainer(store: store, keystore: keystore))
        try await passkeys.open()
        var ids: [String] = []
        for site in sites {
            let key = try await keystore.createKey(
                KeyRequest(policy: .none, prompt: PromptContext(reason: "test")),
                authorizedBy: NobodyPresent())
            let id = Data((0..<Passkey.idBytes).map { _ in .random(in: 0...255) })
            let row = try JSONEncoder().encode(Row(id: id, rpID: site, key: key))
            try passkeys.add(JSONDecoder().decode(Passkey.self, from: row))
            ids.append(Base64URL.encode(id))
        }
        return ids
    }
}
