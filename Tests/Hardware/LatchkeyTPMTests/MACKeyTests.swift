import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import TPM2
import Testing

@testable import LatchkeyTPM

/// A signing key and a MAC key with one proof, as passkeys use them for PRF.
@Suite(.softwareTPM)
struct MACKeyTests {
    private static let messages = [Data(repeating: 1, count: 32), Data(repeating: 2, count: 32)]

    private struct Keys {
        let key: HardwareKey
        let macKey: SealedSecret

        init(_ keystore: TPMKeystore, _ policy: AccessPolicy, _ presence: any PresenceAuthority)
            async throws
        {
            key = try await keystore.createKey(
                KeyRequest(policy: policy, prompt: Scene.prompt), authorizedBy: presence)
            macKey = try await keystore.createMACKey(
                policy: policy, for: Scene.prompt, authorizedBy: presence)
        }

        /// Signs the digest of the outputs.
        func use(
            _ keystore: TPMKeystore, _ presence: any PresenceAuthority,
            _ messages: [Data] = MACKeyTests.messages
        ) async throws(KeystoreError) -> [[UInt8]] {
            let digested = Mutex<MessageDigest?>(nil)
            let (signature, codes) = try await keystore.sign(
                with: key, after: messages, with: macKey, for: Scene.prompt, authorizedBy: presence
            ) { codes in
                let digest = MessageDigest(
                    sha256: codes.flatMap { $0.withUnsafeBytes { Array($0) } })
                digested.withLock { $0 = digest }
                return digest
            }
            if let digest = digested.withLock({ $0 }) {
                #expect(key.publicKey.isValid(signature, for: digest))
            }
            return codes.map { $0.withUnsafeBytes { Array($0) } }
        }
    }

    @Test func `one finger approves two HMACs and the signature of their digest`() async throws {
        try await Scene.withBroker(.matches, .matches) { wire, keystore, broker in
            let presence = ScriptedPresence([], broker: broker)
            let keys = try await Keys(keystore, .biometryAny, presence)
            wire.forget()
            let codes = try await keys.use(keystore, presence)
            #expect(codes.count == 2 && codes.allSatisfy { $0.count == 32 } && codes[0] != codes[1])
            #expect(broker.requests.count == 1)
            #expect(broker.requests.first?.use == .mac(Self.messages[0]))
            #expect(broker.requests.first?.further.map(\.use) == [.mac(Self.messages[1]), nil])
            let mac: [TPMCommandCode] = [.load, .contextLoad, .policySigned, .hmac, .flushContext]
            let sign: [TPMCommandCode] = [
                .load, .contextLoad, .policySigned, .sign, .flushContext,
            ]
            let sessions = Array(
                repeating: [TPMCommandCode.startAuthSession, .contextSave], count: 3
            ).flatMap(\.self)
            #expect(wire.codes == sessions + mac + mac + sign)
            for code in codes {
                #expect(wire.bytes.firstRange(of: code) == nil, "the outputs are encrypted")
            }
            #expect(try await keys.use(keystore, presence, [Self.messages[1]]) == [codes[1]])
        }
    }

    // The software TPM without a resource manager has room for two keys and the broker's.
    @Test func `with a resource manager, all keys are loaded before the finger`() async throws {
        try await Scene.withBroker(.matches, .differs, .stays) { wire, _, broker in
            let keystore = wire.keystore(try SoftwareTPM.current, isShared: true)
            let presence = ScriptedPresence([], broker: broker)
            let keys = try await Keys(keystore, .biometryAny, presence)
            wire.forget()
            #expect(try await keys.use(keystore, presence, [Self.messages[0]]).count == 1)
            #expect(
                wire.codes == [
                    .startAuthSession, .load, .startAuthSession, .load, .policySigned, .hmac,
                    .flushContext,
                    .policySigned, .sign, .flushContext,
                ])
            try Scene.expectNothingLoaded("after the use")
            let other = await Scene.error { () async throws(KeystoreError) in
                _ = try await keys.use(keystore, presence, [Self.messages[0]])
            }
            #expect(other?.code == .wrongProof)
            let waiting = Task {
                await Scene.error { () async throws(KeystoreError) in
                    _ = try await keys.use(keystore, presence, [Self.messages[0]])
                }
            }
            await poll { broker.requests.count == 3 }
            waiting.cancel()
            #expect(await waiting.value?.code == .cancelled)
        }
    }

    @Test func `one PIN is proven for each use`() async throws {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        let keys = try await Keys(keystore, .pin, PresenceSession(ScriptedPresence(pins: "123456")))
        let presence = ScriptedPresence(pins: "123456")
        let codes = try await keys.use(keystore, presence)
        #expect(presence.requests.map(\.purpose) == [.current])
        #expect(try await keys.use(keystore, ScriptedPresence(pins: "123456")) == codes)
        for code in codes { #expect(wire.bytes.firstRange(of: code) == nil) }
        let wrong = await Scene.error { () async throws(KeystoreError) in
            _ = try await keys.use(keystore, ScriptedPresence(pins: "654321"))
        }
        #expect(wrong?.code == .wrongProof)
        try Scene.expectNothingLoaded("after the uses")
    }

    @Test func `the user's PIN replaces the finger`() async throws {
        try await Scene.withBroker(.stays, .matches) { _, keystore, broker in
            let making = ScriptedPresence(
                [.pin("123456"), .pin("123456")], broker: PresenceBroker(broker))
            let keys = try await Keys(keystore, .userPresence, PresenceSession(making))
            let presence = ScriptedPresence(
                [.pin("123456"), .hesitate], broker: PresenceBroker(broker))
            let codes = try await keys.use(keystore, presence)
            #expect(presence.requests.count == 1)
            #expect(try await keys.use(keystore, presence) == codes, "by finger")
            #expect(broker.requests.count == 2)
        }
    }

    @Test func `without TPM2_HMAC the TPM seals the key`() async throws {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        wire.intercept { code, command in
            // GetCapability of commands: none.
            guard code == .getCapability, Array(command[10..<14]) == [0, 0, 0, 2] else {
                return nil
            }
            return [0x80, 0x01, 0, 0, 0, 19, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]
        }
        let keys = try await Keys(keystore, .pin, PresenceSession(ScriptedPresence(pins: "123456")))
        let codes = try await keys.use(keystore, ScriptedPresence(pins: "123456"))
        let secret = try await keystore.unseal(
            keys.macKey, for: Scene.prompt, authorizedBy: ScriptedPresence(pins: "123456"))
        #expect(
            codes
                == Self.messages.map {
                    secret.authenticationCode(for: $0).withUnsafeBytes { Array($0) }
                })
        #expect(!wire.codes.contains(.hmac))
    }

    // MARK: Attacks

    @Test func `a same-user process with the blob gets no output without the proof`() async throws {
        try await Scene.withBroker(.matches) { wire, _, broker in
            let anchors = MemoryTrustAnchors()
            let keystore = wire.keystore(try SoftwareTPM.current, anchors: anchors)
            let keys = try await Keys(keystore, .biometryAny, ScriptedPresence([], broker: broker))
            let blob = try TPMKeyBlob(keys.macKey.blob)
            let root = try StorageRoot(
                anchor: try #require(try await anchors.anchor(StorageRoot.anchorName)))
            func refusal(_ body: (TPM, TPMObject) throws(TPMError) -> Void) throws -> UInt32? {
                Scene.code {
                    try Scene.look { tpm in
                        try tpm.withStorageRoot(root) { (parent) throws(TPMError) in
                            try tpm.withLoadedObject(of: blob.key, under: parent) {
                                (object) throws(TPMError) in
                                try body(tpm, object)
                            }
                        }
                    }
                }
            }
            let message = Array(Self.messages[0])
            #expect(
                try refusal { (tpm, object) throws(TPMError) in
                    _ = try tpm.execute(Hmac(of: message, with: object))
                } == 0x12f, "the key has no authValue: TPM_RC_AUTH_UNAVAILABLE")
            #expect(
                try refusal { (tpm, object) throws(TPMError) in
                    try tpm.withSession(.policy, saltedTo: nil) { (session) throws(TPMError) in
                        _ = try tpm.execute(
                            Hmac(of: message, with: object), authorizedBy: .lastUse(of: session))
                    }
                } == 0x99d, "a policy session without an assertion: TPM_RC_POLICY_FAIL")
            // A finger for one message authorizes no other message, and no signature.
            let finger = try #require(blob.protection.finger)
            let name = Data(try blob.key.publicArea.name.bytes)
            let connection = try wire.transport(try SoftwareTPM.current)
            defer { connection.close() }
            let tpm = TPM(ResubmittingTransport(connection))
            let session = try tpm.execute(StartAuthSession(.policy, saltedTo: nil))
            let answer = try await broker.approve(
                ApprovalRequest(
                    use: .mac(Self.messages[0]), keyName: name, nonceTPM: Data(session.nonceTPM),
                    policy: keys.key.policy,
                    context: Scene.prompt))
            guard case .approved(let given) = answer else {
                Issue.record("not approved")
                return
            }
            let authority = try TPMObject(
                handle: try #require(finger.handle), publicArea: finger.authority)
            let approval = Approval(
                nonceTPM: session.nonceTPM, expiration: given.expiration,
                commandHash: Hmac(
                    of: message, with: NamedHandle(named: try blob.key.publicArea.name)
                ).hash,
                policyRef: finger.reference(under: keys.key.policy))
            _ = try tpm.execute(
                PolicySigned(approval, signature: TPMSignature(given.signature), by: authority),
                in: session)
            let other = Scene.code {
                try tpm.withStorageRoot(root) { (parent) throws(TPMError) in
                    try tpm.withLoadedObject(of: blob.key, under: parent) {
                        (object) throws(TPMError) in
                        _ = try tpm.execute(
                            Hmac(of: Array(Self.messages[1]), with: object),
                            authorizedBy: .lastUse(of: session))
                    }
                }
            }
            #expect(other == 0x99d, "another message than the approved one")
            if session.isLoaded { try? tpm.execute(FlushContext(session.handle)) }
        }
    }

    @Test func `a replaced answer of the broker authorizes nothing`() async throws {
        try await Scene.withBroker(.matches, .matches, .matches) { wire, keystore, broker in
            let keys = try await Keys(keystore, .biometryAny, ScriptedPresence([], broker: broker))
            for (replacement, code) in [
                (ReplacingBroker.Replacement.swap, KeystoreError.Code.transient),
                (.withoutTicket, .refused),
                (.otherDigest, .transient),
            ] {
                let presence = ScriptedPresence(
                    [], broker: PresenceBroker(ReplacingBroker(broker, replacement)))
                wire.forget()
                let error = await Scene.error { () async throws(KeystoreError) in
                    _ = try await keys.use(keystore, presence)
                }
                #expect(error?.code == code, "\(replacement)")
                #expect(!wire.codes.contains(.sign), "\(replacement)")
                try Scene.expectNothingLoaded("\(replacement)")
            }
        }
    }

    @Test func `a ticket approves one signature of its user`() async throws {
        try await Scene.withBroker(.matches) { _, keystore, broker in
            let keys = try await Keys(keystore, .biometryAny, ScriptedPresence([], broker: broker))
            let name = Data(try TPMKeyBlob(keys.key.blob).key.publicArea.name.bytes)
            var request = ApprovalRequest(
                use: .mac(Self.messages[0]), keyName: name, nonceTPM: Data(count: 32),
                policy: keys.key.policy,
                context: Scene.prompt)
            request.further = [.init(use: nil, keyName: name, nonceTPM: Data(count: 32))]
            guard case .approved(let approval) = try await broker.approve(request),
                let ticket = approval.ticket
            else {
                Issue.record("not approved")
                return
            }
            func refusal(_ ticket: Data, _ use: ApprovalRequest.Use, _ user: UInt32) async
                -> CommonErrorCode?
            {
                await Scene.error { () async throws(KeystoreError) in
                    _ = try await broker.authority.complete(ticket, use, for: user)
                }?.code
            }
            #expect(await refusal(ticket, .sign(Scene.digest), 1001) == .refused, "another user")
            #expect(await refusal(ticket, .unseal, broker.user) == .invalidInput)
            #expect(await refusal(Data(count: 32), .sign(Scene.digest), broker.user) == .refused)
            #expect(await refusal(ticket, .sign(Scene.digest), broker.user) == nil)
            #expect(
                await refusal(ticket, .sign(Scene.digest), broker.user) == .refused,
                "a second digest")
            let signature = ApprovalRequest.Further(
                use: nil, keyName: name, nonceTPM: Data(count: 32))
            let other = Data([0x00, 0x0b] + [UInt8](repeating: 1, count: 32))
            func isRefused(_ first: ApprovalRequest.Use, _ further: [ApprovalRequest.Further]) async
                -> Bool
            {
                var changed = request
                (changed.use, changed.further) = (first, further)
                let stated = changed
                return await Scene.error { () async throws(KeystoreError) in
                    try broker.authority.check(stated)
                }?.code
                    == .invalidInput
            }
            func mac(_ name: Data) -> ApprovalRequest.Further {
                ApprovalRequest.Further(
                    use: .mac(Self.messages[1]), keyName: name, nonceTPM: Data(count: 32))
            }
            #expect(await !isRefused(.mac(Self.messages[0]), [mac(name), signature]))
            #expect(await !isRefused(.unseal, [signature]))
            #expect(
                await isRefused(.mac(Self.messages[0]), [mac(other), signature]), "two MAC keys")
            #expect(await isRefused(.mac(Self.messages[0]), [mac(name)]), "no signature")
            #expect(
                await isRefused(.mac(Self.messages[0]), [signature, mac(name)]),
                "the signature is not last")
            #expect(await isRefused(.unseal, [mac(name), signature]))
            #expect(await isRefused(.sign(Scene.digest), [signature]), "two signatures")
            request.further += request.further
            let two = await Scene.error { () async throws(KeystoreError) in
                try broker.authority.check(request)
            }
            #expect(two?.code == .invalidInput, "two deferred signatures")
        }
    }
}

/// A broker whose answers another program replaces.
private struct ReplacingBroker: ApprovalService {
    enum Replacement: Sendable {
        case swap, withoutTicket, otherDigest
    }

    let inner: InProcessBroker
    let replacement: Replacement

    init(_ inner: InProcessBroker, _ replacement: Replacement) {
        (self.inner, self.replacement) = (inner, replacement)
    }

    func fingerState() async -> FingerState { .ready }
    func terms(for policy: AccessPolicy) async throws(KeystoreError) -> PresenceTerms {
        try await inner.terms(for: policy)
    }
    func makeUserPIN() async throws(KeystoreError) -> UnsetUserPIN { try await inner.makeUserPIN() }

    func approve(_ request: ApprovalRequest) async throws(KeystoreError) -> ApprovalAnswer {
        guard case .approved(var approval) = try await inner.approve(request) else {
            return .notRecognised
        }
        switch replacement {
        case .swap:
            (approval.signature, approval.further[0]) = (approval.further[0], approval.signature)
        case .withoutTicket: approval.ticket = nil
        case .otherDigest: break
        }
        return .approved(approval)
    }

    func complete(_ ticket: Data, _ use: ApprovalRequest.Use) async throws(KeystoreError)
        -> PresenceApproval
    {
        try await inner.complete(
            ticket, replacement == .otherDigest ? .sign(MessageDigest(sha256: [9])) : use)
    }
}
