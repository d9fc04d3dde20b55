import Crypto
import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import TPM2
import TPM2TCTI
import Testing

/// The capabilities of an attacker on the bus.
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
        let secret = try await keystore.seal(
            bytes, policy: .pin, for: Scene.prompt, authorizedBy: presence)
        let opened = try await keystore.unseal(secret, for: Scene.prompt, authorizedBy: presence)
        #expect(opened == bytes)

        let traffic = wire.bytes
        #expect(wire.codes.contains(.unseal) && traffic.count > 2000)
        #expect(traffic.firstRange(of: Array(Self.pin.utf8)) == nil)
        let isSecretThere = bytes.withUnsafeBytes { traffic.firstRange(of: Array($0)) != nil }
        #expect(!isSecretThere)
    }

    @Test func `every session is salted, and no authorization with a secret is a password`()
        async throws
    {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        let key = try await Scene.key(keystore)
        try await Scene.sign(keystore, key)
        for exchange in wire.exchanges where exchange.code == .startAuthSession {
            // tpmKey, the first handle, is the storage root key; the encrypted salt is a point of
            // 68 bytes.
            #expect(Array(exchange.command[10..<14]) == [0x81, 0, 0, 1])
            #expect(Array(exchange.command[52..<54]) == [0, 68])
        }
        for exchange in wire.exchanges where exchange.code == .sign || exchange.code == .create {
            // The first authorization's handle, after one handle and the area's size.
            #expect(
                exchange.command[18] == 0x02, "\(exchange.code) is authorized by an HMAC session")
        }
    }

    @Test func `a swapped storage root key is refused before a session is salted`() async throws {
        try await SoftwareTPM.withRunning { interposer in
            let swapped = Wire()
            _ = try await Scene.key(swapped.keystore(interposer))
            _ = try await Scene.key(swapped.keystore(interposer))
            let answer = try #require(swapped.exchanges.last { $0.code == .readPublic }?.response)
            let derived = try #require(
                swapped.exchanges.last { $0.code == .createPrimary }?.response)

            let wire = Wire()
            let tpm = try SoftwareTPM.current
            let keystore = wire.keystore(tpm)
            let key = try await Scene.key(keystore)
            wire.forget()
            wire.tamper { code, response in
                switch code {
                case .readPublic: answer
                case .createPrimary: derived
                default: response
                }
            }
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

    /// An interposer that says that the handle is empty, and derives its own key, would know the salt of
    /// the session.
    @Test func `a key that is derived in place of the pinned one gets no session`() async throws {
        try await SoftwareTPM.withRunning { interposer in
            let theirs = Wire()
            _ = try await Scene.key(theirs.keystore(interposer))
            let derived = try #require(
                theirs.exchanges.last { $0.code == .createPrimary }?.response)

            let wire = Wire()
            let keystore = wire.keystore(try SoftwareTPM.current)
            let key = try await Scene.key(keystore, .none)
            wire.forget()
            let noHandle: [UInt8] = [0x80, 0x01, 0, 0, 0, 10, 0, 0, 0x01, 0x8b]
            wire.tamper { code, response in
                switch code {
                case .readPublic, .startAuthSession: noHandle
                case .createPrimary: derived
                default: response
                }
            }
            let error = await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(keystore, key)
            }
            #expect(error?.code == .wrongDevice, "\(String(describing: error))")
            #expect(wire.codes.contains(.createPrimary))
            let sessions = wire.exchanges.filter { $0.code == .startAuthSession }
            #expect(sessions.map { Array($0.command[10..<14]) } == [[0x81, 0, 0, 1]])
        }
    }

    /// An attacker who edits the pinned key and the key's record of its parent knows the salt of
    /// each session. Load must fail before Sign proves knowledge of the PIN to the attacker.
    @Test func `with a store that was edited to trust another key, no PIN is proven`() async throws
    {
        try await SoftwareTPM.withRunning { attacker in
            let theirs = MemoryTrustAnchors()
            _ = try await Scene.key(TPMKeystore(tcti: attacker.tcti, anchors: theirs))
            let wire = Wire()
            let key = try await Scene.key(wire.keystore(try SoftwareTPM.current))
            let edited = key.replacing(
                blob: try Self.blob(
                    key.blob, replacing: Self.parentName(try SoftwareTPM.current.tcti),
                    by: Self.parentName(attacker.tcti)))
            wire.forget()
            let misled = wire.keystore(try SoftwareTPM.current, anchors: theirs)
            let unattended = ScriptedPresence([.pin("123456")], isInteractive: false)
            let error = await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(misled, edited, unattended)
            }
            #expect(error?.code == .wrongDevice)
            #expect(error?.underlying?.rawCode == 0x9a2)
            #expect(wire.codes.contains(.load) && !wire.codes.contains(.sign))
            #expect(
                try Scene.look { try $0.properties(from: .lockoutCounter, count: 1) } == [
                    .lockoutCounter: 0
                ])
            try Scene.expectNothingLoaded("after a refused Load")
        }
    }

    private static func parentName(_ tcti: String) throws -> [UInt8] {
        let connection = try TCTIConnection(tcti)
        defer { connection.close() }
        return try TPM(ResubmittingTransport(connection)).execute(ReadPublic(.storageRootKey)).name
            .bytes
    }

    /// The blob with other bytes in it, and the digest that it ends with made to fit.
    private static func blob(_ blob: Data, replacing old: [UInt8], by new: [UInt8]) throws -> Data {
        var structure = Array(blob.dropLast(SHA256.byteCount))
        structure.replaceSubrange(try #require(structure.firstRange(of: old)), with: new)
        return Data(structure) + Data(SHA256.hash(data: structure))
    }

    @Test(arguments: [TPMCommandCode.sign, .load, .startAuthSession, .getCapability, .flushContext])
    func `a changed response gives no signature`(_ bent: TPMCommandCode) async throws {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        let key = try await Scene.key(keystore)
        try await Scene.sign(keystore, key)
        wire.tamper { code, response in code == bent ? Array(response.dropLast(3)) : response }
        let error = await Scene.error { () async throws(KeystoreError) in
            try await Scene.sign(keystore, key)
        }
        #expect(error != nil)
    }
}
