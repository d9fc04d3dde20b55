import Foundation
import Latchkey
import LatchkeyLogin
import LatchkeyOAuth
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Two real servers, and a login at one of them.
@Suite(.softwareTPM) struct TwoServersTests {
    @Test func `a login at one server sends the other no request`() async throws {
        try await IdentityProcess.with { first in
            try await IdentityProcess.with { second in
                let directory = try TemporaryDirectory()
                let tpm = try SoftwareTPM.current
                func start(_ server: IdentityProcess, _ transport: any HTTPTransport) async throws
                    -> Container
                {
                    let store = try await RecordStore(directory: directory.path)
                    return try Container(
                        ContainerConfiguration(
                            endpoint: server.endpoint, clientID: server.clientID, policy: .pin),
                        records: RecordContainer(
                            store: store, keystore: TPMKeystore(tcti: tpm.tcti, anchors: store)),
                        presence: ScriptedPresence(Array(repeating: .pin(Bench.pin), count: 4)),
                        browser: FormBrowser(server.users[0]), transport: transport)
                }
                let mine = try await start(first, CurlTransport())
                try await mine.authorize()
                let kid = try await mine.enableBiometric().id
                let wire = RecordingTransport(forwardingTo: CurlTransport())
                for operation in ContainerOperation.allCases {
                    let other = try await start(second, wire)
                    await #expect(throws: login(.conflict), "\(operation)") {
                        try await operation.run(other)
                    }
                }
                try await start(second, wire).logout(keepBiometric: true, force: true)
                #expect(wire.recordings.isEmpty, "\(wire.summary)")
                #expect(
                    try await start(first, CurlTransport()).authenticateBiometric().keyID == kid)
            }
        }
    }
}
