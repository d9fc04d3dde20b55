import Crypto
import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import Testing

@Suite("Devices") struct DeviceTests {
    /// Authgear's formats.
    @Test(arguments: [
        (
            #"{"ios":{"uname":{"machine":"Linux ThinkPad","nodename":"bench"}}}"#,
            "Linux ThinkPad (bench)"
        ),
        (#"{"ios":{"uname":{"machine":"x86_64"}}}"#, "iOS Simulator"),
        (#"{"ios":{"uname":{"machine":"arm64"}}}"#, "iOS Simulator"),
        (#"{"android":{"Build":{"MANUFACTURER":"Lenovo","MODEL":"X1"}}}"#, "Lenovo X1"),
        (
            #"{"android":{"Build":{"MANUFACTURER":"A","MODEL":"B"},"Settings":{"Global":{"DEVICE_NAME":"mine"}}},"ios":{"uname":{"machine":"C"}}}"#,
            "A B (mine)"
        ),
        (#"{"android":{"Build":{"MODEL":"B"}},"ios":{"uname":{"machine":"C"}}}"#, nil),
        (#"{"android":1,"ios":{"uname":{"machine":"C"}}}"#, "C"),
        (#"{"linux":{"machine":"C"}}"#, nil),
        (#"{"ios":{"uname":{"machine":""}}}"#, nil), (#"{"ios":{"uname":{"machine":7}}}"#, nil),
        ("{}", nil),
        ("[]", nil), ("null", nil),
    ])
    func `a description has a label`(json: String, label: String?) throws {
        let value = try JSONDecoder().decode(JSONValue.self, from: Data(json.utf8))
        #expect(DeviceInfo(value)?.label == label)
    }

    private func registry() async throws -> DatabaseDeviceRegistry {
        DatabaseDeviceRegistry(
            try await TestDatabase.open(DatabaseDeviceRegistry.migrations), project: "one")
    }

    private func device(_ kid: String, of user: String, at time: Double = 1_700_000_000) throws
        -> RegisteredDevice
    {
        let info = JSONValue.object([
            "ios": .object(["uname": .object(["machine": .string("Linux")])])
        ])
        return RegisteredDevice(
            kid: try #require(KeyID(rawValue: kid)), userID: user,
            key: .es256(
                try PublicKey(
                    x963Representation: P256.Signing.PrivateKey().publicKey.x963Representation)),
            info: try #require(DeviceInfo(info)), createdAt: Date(timeIntervalSince1970: time))
    }

    @Test func `a registry returns the stored device`() async throws {
        let registry = try await registry()
        let (first, second) = (
            try device("key-number-1", of: "a"),
            try device("key-number-2", of: "a", at: 1_600_000_000)
        )
        try await registry.add(first)
        try await registry.add(second)
        #expect(try await registry.device(kid: first.kid) == first)
        #expect(try await registry.devices(of: "a") == [second, first])
        #expect(try await registry.devices(of: "b").isEmpty)
    }

    @Test(arguments: ["a", "b"]) func `a kid is unique in a project`(user: String) async throws {
        let database = try await TestDatabase.open(DatabaseDeviceRegistry.migrations)
        let (one, two) = (
            DatabaseDeviceRegistry(database, project: "one"),
            DatabaseDeviceRegistry(database, project: "two")
        )
        try await one.add(device("key-number-1", of: "a"))
        let error = await #expect(throws: BiometricRequestError.self) {
            try await one.add(device("key-number-1", of: user))
        }
        #expect(error?.code == .duplicateKeyID)
        #expect(error?.oauthError == .invalidGrant("InvalidCredentials"))
        try await two.add(device("key-number-1", of: user))
    }

    @Test func `only the device's user can remove it`() async throws {
        let registry = try await registry()
        let device = try device("key-number-1", of: "a")
        try await registry.add(device)
        #expect(try await registry.remove(kid: device.kid, of: "b") == nil)
        #expect(try await registry.remove(kid: device.kid, of: "a") == device)
        #expect(try await registry.remove(kid: device.kid, of: "a") == nil)
        #expect(try await registry.device(kid: device.kid) == nil)
    }
}
