import Crypto
import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import Testing

@testable import LatchkeyTPM
@testable import TPM2

/// An attacker has recorded the bus and copied the store, and tries a dictionary that has the right
/// PIN, without the TPM: the attacker recomputes the proofs in the recorded commands.
@Suite(.softwareTPM)
struct OfflineGuessingTests {
    private static let pin = "271828"
    private static let next = "314159"
    private static let dictionary = ["123456", "271828", "314159", "000000", "271827"]

    /// The recorded commands that prove an authValue, with all of their proof that is on the bus.
    private struct Proof {
        let code: TPMCommandCode
        let parameters: [UInt8]
        let handles: [TPMHandle]
        let nonceCaller: [UInt8]
        let nonceTPM: [UInt8]
        let attributes: UInt8
        let hmac: [UInt8]
        /// The nonces with which the session began.
        let start: (caller: [UInt8], tpm: [UInt8])
    }

    /// The number of handles of the commands that prove a PIN.
    private static let handleCounts: [TPMCommandCode: Int] = [
        .sign: 1, .unseal: 1, .nvRead: 2, .objectChangeAuth: 2, .nvChangeAuth: 1, .policySecret: 2,
    ]

    private func proofs(_ wire: Wire) throws -> [Proof] {
        var sessions: [TPMHandle: (start: (caller: [UInt8], tpm: [UInt8]), nonceTPM: [UInt8])] = [:]
        var proofs: [Proof] = []
        for exchange in wire.exchanges where exchange.response[6..<10].allSatisfy({ $0 == 0 }) {
            var command = TPMReader(exchange.command.dropFirst(10))
            var response = TPMReader(exchange.response.dropFirst(10))
            if exchange.code == .startAuthSession {
                _ = try command.readBytes(8)
                let caller = try command.readSized(maximum: 64)
                let handle = try response.read(TPMHandle.self)
                let nonce = try response.readSized(maximum: 64)
                sessions[handle] = ((caller, nonce), nonce)
            }
            // Load and Create prove nothing of a PIN, and roll the nonce.
            let count =
                Self.handleCounts[exchange.code]
                ?? (exchange.code == .load || exchange.code == .create ? 1 : 0)
            guard count > 0, exchange.command[1] == 2 else { continue }
            let handles = try (0..<count).map { _ throws(TPMError) in
                try command.read(TPMHandle.self)
            }
            _ = try command.readBytes(4)
            let session = try command.read(TPMHandle.self)
            let nonceCaller = try command.readSized(maximum: 64)
            let attributes = try command.read(UInt8.self)
            let hmac = try command.readSized(maximum: 64)
            guard let known = sessions[session] else { continue }
            if Self.handleCounts[exchange.code] != nil {
                proofs.append(
                    Proof(
                        code: exchange.code, parameters: command.readRest(), handles: handles,
                        nonceCaller: nonceCaller, nonceTPM: known.nonceTPM, attributes: attributes,
                        hmac: hmac,
                        start: known.start))
            }
            if exchange.code == .load { _ = try response.readBytes(4) }
            let size = Int(try response.read(UInt32.self))
            _ = try response.readBytes(size)
            sessions[session]?.nonceTPM = try response.readSized(maximum: 64)
        }
        return proofs
    }

    /// The PINs with which a recorded proof can be recomputed.
    ///
    /// - Parameter names: Of the handles in the command.
    private func crack(
        _ proof: Proof, names: [TPMName], _ authValue: (String) throws -> AuthValue
    ) throws -> [String] {
        let hash = ParameterHash.command(proof.code, names: names, parameters: proof.parameters)
        let unsalted = SymmetricKey(data: [UInt8]())
        let zeroSalt = KeyDerivation.kdfa(
            key: unsalted, label: "ATH", contextU: proof.start.tpm, contextV: proof.start.caller)
        return try Self.dictionary.filter { pin in
            try [unsalted, zeroSalt].contains { sessionKey in
                let key = sessionKey + (try authValue(pin)).key
                var mac = HMAC<SHA256>(key: key)
                mac.update(data: hash + proof.nonceCaller + proof.nonceTPM + [proof.attributes])
                return Array(mac.finalize()) == proof.hmac
            }
        }
    }

    @Test func `recorded traffic and the store do not show which PIN was used`() async throws {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        let plain = try await Scene.key(keystore, pin: Self.pin)
        let revocable = try await keystore.createRevocableKey(
            KeyRequest(policy: .pin, prompt: Scene.prompt),
            authorizedBy: ScriptedPresence(pins: Self.pin)
        ) { _ in }
        for key in [plain, revocable] { try await Scene.sign(keystore, key, pin: Self.pin) }
        _ = try await keystore.changePIN(
            of: [plain, revocable], secrets: [], for: Scene.prompt,
            authorizedBy: ScriptedPresence(pins: Self.pin, Self.next))
        let blob = try TPMKeyBlob(plain.blob)
        let kept = try #require(
            try keystore.authorization(of: revocable, TPMKeyBlob(revocable.blob)))
        let keyName = try blob.key.publicArea.name
        let revocableName = try TPMKeyBlob(revocable.blob).key.publicArea.name
        let proofs = try proofs(wire)
        #expect(
            Set(proofs.map(\.code)) == [
                .sign, .nvRead, .objectChangeAuth, .nvChangeAuth, .policySecret,
            ])
        for proof in proofs {
            for name in [keyName, revocableName] {
                let names = proof.handles.map { handle in
                    switch handle {
                    case kept.index.handle: kept.index.name
                    case .storageRootKey: kept.parentName
                    // The Name of a session is its handle (TPM 2.0 Part 1 section 16).
                    case _ where handle.rawValue >> 24 == 0x03:
                        TPMName(bytes: withUnsafeBytes(of: handle.rawValue.bigEndian) { Array($0) })
                    default: name
                    }
                }
                let byKey = try crack(proof, names: names) { try self.authValue($0, blob) }
                let byIndex = try crack(proof, names: names) { try kept.authValue(PIN($0)) }
                #expect(byKey.isEmpty && byIndex.isEmpty, "\(proof.code)")
            }
        }
    }

    /// Checks the attack itself: with an unsalted session it finds the PIN.
    @Test func `an unsalted session discloses the PIN`() async throws {
        let wire = Wire()
        let tpm = try SoftwareTPM.current
        let anchors = MemoryTrustAnchors()
        let key = try await Scene.key(TPMKeystore(tcti: tpm.tcti, anchors: anchors), pin: Self.pin)
        let blob = try TPMKeyBlob(key.blob)
        let root = try StorageRoot(
            anchor: try #require(try await anchors.anchor(StorageRoot.anchorName)))
        let right = try authValue(Self.pin, blob)
        let transport = ResubmittingTransport(try wire.transport(tpm))
        defer { transport.close() }
        let direct = TPM(transport)
        let parent = try TPMObject(handle: .storageRootKey, publicArea: root.publicArea)
        try direct.withSession(.hmac, saltedTo: nil) { (session) throws(TPMError) in
            try direct.withLoaded(blob.key.privatePart, blob.key.publicArea, under: parent) {
                (object) throws(TPMError) in
                _ = try direct.execute(
                    Sign(Scene.digest.bytes, with: object),
                    authorizedBy: .lastUse(of: session, authValue: right))
            }
        }
        let proof = try #require(proofs(wire).last)
        #expect(proof.code == .sign)
        let found = try crack(proof, names: [blob.key.publicArea.name]) {
            try self.authValue($0, blob)
        }
        #expect(found == [Self.pin])
    }

    private func authValue(_ pin: String, _ blob: TPMKeyBlob) throws -> AuthValue {
        try PINHardening.authValue(
            PIN(pin), salt: try #require(blob.protection.pinSalt), boundTo: blob.binding)
    }
}
