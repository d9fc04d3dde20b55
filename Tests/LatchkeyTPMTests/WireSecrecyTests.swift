import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import TPM2
import Testing

/// What somebody on the bus sees and can do.
@Suite(.softwareTPM)
struct WireSecrecyTests {
    private static let pin = "a PIN that is easy to find"

    @Test func `neither the PIN nor a sealed secret is on the wire`() async throws {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        let key = try await Scene.key(keystore, pin: Self.pin)
        try await Scene.sign(keystore, key, pin: Self.pin)
        let bytes = SecretBytes.random(count: 32)
        let presence = ScriptedPresence(pins: Self.pin, Self.pin)
        let secret = try await keystore.seal(bytes, policy: .pin, for: Scene.prompt, authorizedBy: presence)
        let opened = try await keystore.unseal(secret, for: Scene.prompt, authorizedBy: presence)
        #expect(opened == bytes)

        let traffic = wire.bytes
        #expect(wire.codes.contains(.unseal) && traffic.count > 2000)
        #expect(traffic.firstRange(of: Array(Self.pin.utf8)) == nil)
        let isSecretThere = bytes.withUnsafeBytes { traffic.firstRange(of: Array($0)) != nil }
        #expect(!isSecretThere)
    }

    @Test func `every session is salted, and no authorization with a secret is a password`() async throws {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        let key = try await Scene.key(keystore)
        try await Scene.sign(keystore, key)
        for exchange in wire.exchanges where exchange.code == .startAuthSession {
            // tpmKey, the first handle, is the storage root key; the encrypted salt is a point of 68 bytes.
            #expect(Array(exchange.command[10..<14]) == [0x81, 0, 0, 1])
            #expect(Array(exchange.command[52..<54]) == [0, 68])
        }
        for exchange in wire.exchanges where exchange.code == .sign || exchange.code == .create {
            // The first authorization's handle, after one handle and the area's size.
            #expect(exchange.command[18] == 0x02, "\(exchange.code) is authorized by an HMAC session")
        }
    }

    @Test func `a swapped storage root key is refused before a session is salted`() async throws {
        try await SoftwareTPM.withRunning { interposer in
            let swapped = Wire()
            _ = try await Scene.key(swapped.keystore(interposer))
            _ = try await Scene.key(swapped.keystore(interposer))
            let answer = try #require(swapped.exchanges.last { $0.code == .readPublic }?.response)

            let wire = Wire()
            let tpm = try SoftwareTPM.current
            let keystore = wire.keystore(tpm)
            let key = try await Scene.key(keystore)
            wire.forget()
            wire.tamper { code, response in code == .readPublic ? answer : response }
            let presence = ScriptedPresence(pins: "123456")
            let error = await Scene.error { () async throws(KeystoreError) in
                _ = try await keystore.createKey(
                    KeyRequest(policy: .pin, prompt: Scene.prompt), authorizedBy: presence)
            }
            #expect(error?.code == .wrongDevice)
            #expect(presence.requests.isEmpty)
            #expect(!wire.codes.contains(.startAuthSession))

            // Without a pin, the key's own record of its parent is what counts.
            wire.forget()
            let unpinned = wire.keystore(tpm)
            let refusal = await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(unpinned, key)
            }
            #expect(refusal?.code == .wrongDevice)
            #expect(!wire.codes.contains(.startAuthSession))
        }
    }

    @Test(arguments: [TPMCommandCode.sign, .load, .startAuthSession, .getCapability, .flushContext])
    func `a bent response gives no signature`(_ bent: TPMCommandCode) async throws {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        let key = try await Scene.key(keystore)
        try await Scene.sign(keystore, key)
        wire.tamper { code, response in code == bent ? Array(response.dropLast(3)) : response }
        let error = await Scene.error { () async throws(KeystoreError) in try await Scene.sign(keystore, key) }
        #expect(error != nil)
    }
}
