import Foundation
import Glibc
import Latchkey
import LatchkeyPresence
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import LatchkeyTPM

/// A new key with a PIN is bound to the user's PIN index where there is a broker. A failing bus or
/// broker must not lead to a weaker key.
@Suite(
    .requires(program: "dbus-daemon"), .softwareTPM,
    .enabled(
        if: FileManager.default.fileExists(atPath: SystemBus.distribution),
        "needs \(SystemBus.distribution)"))
struct BrokerAbsenceTests {
    private static let startable = """
        [D-BUS Service]
        Name=org.latchkey.Presence1
        Exec=/bin/false
        User=root
        """

    /// Makes a key under the policy `pin`.
    ///
    /// - Returns: Whether it is bound to the user's PIN index.
    private func isIndexed(at bus: String) async throws -> Bool {
        let keystore = TPMKeystore(
            tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
        let presence = ScriptedPresence(
            [.pin("123456")], broker: SystemPresenceBroker(busAddress: bus))
        let key = try await keystore.createKey(
            KeyRequest(policy: .pin, prompt: BrokerScene.prompt), authorizedBy: presence)
        return try TPMKeyBlob(key.blob).protection.userPIN != nil
    }

    private func expectRefusal(_ code: KeystoreError.Code = .transient, at bus: String) async {
        #expect(await !SystemPresenceBroker(busAddress: bus).isAbsent())
        await #expect(throws: KeystoreError(operation: "", code: code, reason: "", recovery: "")) {
            try await isIndexed(at: bus)
        }
    }

    @Test func `without a bus, or without a service, the key has its own PIN`() async throws {
        #expect(await SystemPresenceBroker(busAddress: "unix:path=/nowhere/bus").isAbsent())
        #expect(try await isIndexed(at: "unix:path=/nowhere/bus") == false)
        try await SystemBus.withRunning(as: geteuid()) { bus in
            #expect(await SystemPresenceBroker(busAddress: bus).isAbsent())
            let isIndexed = try await isIndexed(at: bus)
            #expect(!isIndexed)
        }
    }

    @Test func `an installed broker is not absent, also without a bus`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            try Data(Self.startable.utf8).write(
                to: URL(filePath: directory.path(of: "org.latchkey.Presence1.service")))
            var client = SystemPresenceBroker(busAddress: "unix:path=/nowhere/bus")
            client.serviceDirectories = [directory.path]
            #expect(await !client.isAbsent())
            let keystore = TPMKeystore(
                tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
            let presence = ScriptedPresence([.pin("123456")], broker: client)
            await #expect(
                throws: KeystoreError(
                    operation: "", code: .unavailable, reason: "", recovery: "")
            ) {
                _ = try await keystore.createKey(
                    KeyRequest(policy: .pin, prompt: BrokerScene.prompt), authorizedBy: presence)
            }
            try await SystemBus.withRunning(as: geteuid()) { bus in
                var client = SystemPresenceBroker(busAddress: bus)
                client.serviceDirectories = [directory.path]
                #expect(await !client.isAbsent())
            }
        }
    }

    @Test func `a bus that refuses or hangs up makes no key`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let path = directory.path(of: "bus")
            let listener = try LostBusTests.listen(at: path)
            let hangUp = Thread {
                while true {
                    let connection = accept(listener, nil, nil)
                    guard connection >= 0 else { break }
                    endSocket(connection)
                }
                close(listener)
            }
            hangUp.start()
            await expectRefusal(at: "unix:path=\(path)")
            // accept(2) fails after this, and the accepting thread closes the descriptor.
            shutdown(listener, Int32(SHUT_RDWR))
            await expectRefusal(at: "unix:path=\(path)")
        }
    }

    @Test func `a broker that can't be started makes no key`() async throws {
        try await SystemBus.withRunning(as: geteuid(), startable: Self.startable) { bus in
            await expectRefusal(at: bus)
        }
    }

    @Test(arguments: [
        ("org.freedesktop.DBus.Error.NoReply", KeystoreError.Code.transient),
        ("org.freedesktop.DBus.Error.LimitsExceeded", .transient),
        ("org.freedesktop.DBus.Error.AccessDenied", .transient),
        ("org.freedesktop.DBus.Error.Disconnected", .transient),
        ("org.freedesktop.DBus.Error.NameHasNoOwner", .unavailable),
        ("org.freedesktop.DBus.Error.ServiceUnknown", .unavailable),
        ("org.latchkey.Presence1.Error.Unavailable", .unavailable),
    ])
    func `an owner of the name that answers with an error makes no key`(
        name: String, code: KeystoreError.Code
    ) async throws {
        try await SystemBus.withRunning(as: geteuid()) { address in
            let bus = try await Bus.system(at: address)
            try await bus.serve { _ in .answer(.failure(BusError(name: name, message: "no"))) }
            try await bus.own(PresenceWire.name)
            await expectRefusal(code, at: address)
        }
    }
}
