import FoundationEssentials
import Latchkey
import LatchkeyLogin
import LatchkeyTPM
import Testing

// What follows up to the mark stands in README.md word for word, so that it compiles there too.
/// Logs in with the key, or in the browser where there is none yet.
func logIn(
    at endpoint: String, clientID: String, tcti: String, storeDirectory: String,
    presence: any PresenceAuthority, browser: any Browser
) async throws -> UserInfo {
    let store = try await RecordStore(directory: storeDirectory)
    let keystore = TPMKeystore(tcti: tcti, anchors: store)
    let container = try Container(
        ContainerConfiguration(endpoint: endpoint, clientID: clientID),
        records: RecordContainer(store: store, keystore: keystore),
        presence: presence, browser: browser)

    if try await container.isBiometricEnabled {
        return try await container.authenticateBiometric().userInfo
    }
    let result = try await container.authorize()
    try await container.enableBiometric()
    return result.userInfo
}
// The mark.

@Suite struct `The README` {
    @Test func `shows Swift that compiles`() throws {
        let here = URL(filePath: #filePath)
        let source = try String(contentsOf: here, encoding: .utf8)
        let readme = try String(
            contentsOf: here.deletingLastPathComponent().appending(path: "../../README.md"), encoding: .utf8)
        let start = try #require(source.firstRange(of: "there too.\n")).upperBound
        let end = try #require(source.firstRange(of: "// The mark.")).lowerBound
        #expect(readme.contains(source[start..<end]))
    }
}
