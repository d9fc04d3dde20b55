import Crypto
import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import TPM2
import Testing

@testable import LatchkeyTPM

/// An attacker on the bus forges one answer, or changes one command, at each position of each
/// operation. A reported success must have happened in the TPM, and no other digest is signed.
@Suite(.softwareTPM, .requires(program: "swtpm"), .timeLimit(.minutes(15)))
struct InterposerTests {
    enum Operation: String, CaseIterable {
        case create, createRevocable, sign, signRevocable, unseal, changePIN, changeRevocablePIN,
            delete
    }

    enum Forgery: CaseIterable {
        /// The TPM never sees the command, and its success comes back: without parameters, with
        /// zeros, or the answer to the same command of an earlier operation.
        case emptySuccess, zeroSuccess, replayedSuccess
        /// TPM_RC_HANDLE comes back, and the TPM did not see the command, or has executed it.
        case absence, absenceAfterwards
        /// TPM_RC_RETRY comes back to this and all later commands of the kind, and the TPM has
        /// executed them.
        case busy
        /// The digest in the command is another one.
        case otherDigest
    }

    private static let old = "123456"
    private static let new = "654321"
    private static let other = MessageDigest(sha256: Array("another message".utf8)).bytes

    /// The keys and the secret of one operation, made without the attacker.
    private struct Subject: Sendable {
        let plain: HardwareKey
        let revocable: HardwareKey
        let secret: SealedSecret
        let bytes: SecretBytes
    }

    /// The result that an operation has reported.
    private enum Outcome {
        case key(HardwareKey)
        case signature(ECDSASignature, by: HardwareKey)
        case opened(SecretBytes)
        case changed([HardwareKey])
        case deleted
        case failed(KeystoreError)
    }

    private func revocableKey(_ keystore: TPMKeystore) async throws(KeystoreError) -> HardwareKey {
        try await keystore.createRevocableKey(
            KeyRequest(policy: .pin, prompt: Scene.prompt),
            authorizedBy: ScriptedPresence(pins: Self.old)
        ) { _ in }
    }

    private func subject(_ keystore: TPMKeystore) async throws -> Subject {
        let bytes = SecretBytes.random(count: 32)
        return Subject(
            plain: try await Scene.key(keystore), revocable: try await revocableKey(keystore),
            secret: try await keystore.sealRevocably(
                bytes, policy: .pin, for: Scene.prompt,
                authorizedBy: ScriptedPresence(pins: Self.old)
            ) { _ in }, bytes: bytes)
    }

    private func perform(_ operation: Operation, _ keystore: TPMKeystore, _ subject: Subject) async
        -> Outcome
    {
        do throws(KeystoreError) {
            switch operation {
            case .create:
                return .key(
                    try await keystore.createKey(
                        KeyRequest(policy: .pin, prompt: Scene.prompt),
                        authorizedBy: ScriptedPresence(pins: Self.old)))
            case .createRevocable: return .key(try await revocableKey(keystore))
            case .sign:
                return .signature(try await Scene.sign(keystore, subject.plain), by: subject.plain)
            case .signRevocable:
                return .signature(
                    try await Scene.sign(keystore, subject.revocable), by: subject.revocable)
            case .unseal:
                return .opened(
                    try await keystore.unseal(
                        subject.secret, for: Scene.prompt,
                        authorizedBy: ScriptedPresence(pins: Self.old)))
            case .changePIN, .changeRevocablePIN:
                let key = operation == .changePIN ? subject.plain : subject.revocable
                return .changed(
                    try await keystore.changePIN(
                        of: [key], secrets: [], for: Scene.prompt,
                        authorizedBy: ScriptedPresence(pins: Self.old, Self.new)
                    ).keys)
            case .delete:
                try await keystore.delete(subject.revocable)
                return .deleted
            }
        } catch {
            return .failed(error)
        }
    }

    /// - Parameter honest: The exchanges of the operation without the attacker.
    private func forge(
        _ forgery: Forgery, at position: Int, _ wire: Wire, _ honest: [Wire.Exchange]
    ) {
        let count = Mutex(0)
        let target = honest[position]
        let absent = Wire.error(0x18b)
        wire.replace { _, command in
            let index = count.withLock { count in
                count += 1
                return count - 1
            }
            guard forgery == .otherDigest, index == position,
                let digest = command.firstRange(of: Scene.digest.bytes)
            else { return command }
            return Array(command[..<digest.lowerBound] + Self.other + command[digest.upperBound...])
        }
        wire.intercept { code, command in
            guard count.withLock({ $0 }) == position + 1 else { return nil }
            switch forgery {
            case .emptySuccess: return [0x80, command[1], 0, 0, 0, 10, 0, 0, 0, 0]
            case .zeroSuccess:
                return target.response.prefix(6)
                    + [UInt8](repeating: 0, count: target.response.count - 6)
            case .replayedSuccess: return target.response
            case .absence: return absent
            case .absenceAfterwards, .busy, .otherDigest: return nil
            }
        }
        wire.tamper { code, response in
            let isHit = count.withLock { $0 } == position + 1
            switch forgery {
            case .absenceAfterwards where isHit: return absent
            case .busy where code == target.code && count.withLock({ $0 }) > position:
                return Wire.error(0x922)
            default: return response
            }
        }
    }

    @Test(arguments: Operation.allCases)
    func `no forged response to any command causes a false success`(
        _ operation: Operation
    ) async throws {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        let first = try await subject(keystore)
        for key in [first.plain, first.revocable] { try await Scene.sign(keystore, key) }
        wire.forget()
        if case .failed(let error) = await perform(operation, keystore, first) { throw error }
        let honest = wire.exchanges
        #expect(honest.count >= 3)
        try clear()
        for (position, exchange) in honest.enumerated() {
            for forgery in Forgery.allCases {
                let situation: Comment = "\(operation), \(forgery) at \(position): \(exchange.code)"
                let subject = try await subject(keystore)
                wire.forget()
                forge(forgery, at: position, wire, honest)
                let outcome = await perform(operation, keystore, subject)
                wire.behave()
                try clear()
                try await check(outcome, operation, subject, keystore, situation)
                try expectNoOtherDigest(wire, situation)
                try remove(subject)
            }
        }
    }

    /// The policies whose proof goes through a policy session, the last one with a ticket.
    private static let brokered =
        [AccessPolicy.biometryAny, .biometryCurrentSet, .userPresence]
        + [
            AccessPolicy(.biometryAny, reuseSeconds: 300),
            AccessPolicy(.userPresence, reuseSeconds: 300),
        ]
        .compactMap(\.self)

    @Test(arguments: brokered)
    func `with a finger or a user's PIN, no forgery signs another digest`(
        _ policy: AccessPolicy
    ) async throws {
        try await Scene.withBroker { wire, keystore, broker in
            let key = try await Scene.key(
                keystore, policy, ScriptedPresence([.pin(Self.old)], broker: broker))
            func sign() async -> Outcome {
                broker.show(.matches)
                let presence =
                    policy.hasPIN
                    ? ScriptedPresence([.pin(Self.old)], broker: broker, preferring: .pin)
                    : ScriptedPresence([], broker: broker)
                do throws(KeystoreError) {
                    return .signature(try await Scene.sign(keystore, key, presence), by: key)
                } catch { return .failed(error) }
            }
            if case .failed(let error) = await sign() { throw error }
            wire.forget()
            if case .failed(let error) = await sign() { throw error }
            let honest = wire.exchanges
            #expect(honest.map(\.code).contains(.policyTicket) == (policy.reuseSeconds > 0))
            for (position, exchange) in honest.enumerated() {
                for forgery in Forgery.allCases {
                    let situation: Comment =
                        "\(policy), \(forgery) at \(position): \(exchange.code)"
                    wire.forget()
                    forge(forgery, at: position, wire, honest)
                    let outcome = await sign()
                    wire.behave()
                    try clear()
                    switch outcome {
                    case .signature(let signature, let key):
                        #expect(key.publicKey.isValid(signature, for: Scene.digest), situation)
                    case .failed(let error):
                        #expect(error.code != .invalidated, "\(situation): \(error)")
                    default: Issue.record("it does nothing else")
                    }
                    try expectNoOtherDigest(wire, situation)
                    // The next use succeeds and resets the count of the user's PIN.
                    if case .failed(let error) = await sign() { throw error }
                }
            }
        }
    }

    /// The TPM has made no signature over the attacker's digest.
    private func expectNoOtherDigest(_ wire: Wire, _ situation: Comment) throws {
        let signed = wire.exchanges.filter {
            $0.code == .sign && $0.response[6..<10].allSatisfy { $0 == 0 }
        }
        #expect(signed.allSatisfy { $0.command.firstRange(of: Self.other) == nil }, situation)
    }

    /// Whether the TPM is as the outcome says.
    private func check(
        _ outcome: Outcome, _ operation: Operation, _ subject: Subject, _ keystore: TPMKeystore,
        _ situation: Comment
    ) async throws {
        switch outcome {
        case .key(let key):
            try await Scene.sign(keystore, key, pin: Self.old)
            #expect(await refusal(keystore, key, pin: Self.new) == .wrongProof, situation)
            if key.isRevocable { try await keystore.delete(key) }
        case .signature(let signature, let key):
            #expect(key.publicKey.isValid(signature, for: Scene.digest), situation)
        case .opened(let bytes): #expect(bytes == subject.bytes, situation)
        case .changed(let keys):
            let key = try #require(keys.first)
            #expect(await refusal(keystore, key, pin: Self.new) == nil, situation)
            #expect(await refusal(keystore, key, pin: Self.old) == .wrongProof, situation)
        case .deleted:
            #expect(
                await refusal(keystore, subject.revocable, pin: Self.old) == .invalidated, situation
            )
            let index = try RevocableSecret(#require(subject.revocable.authorization).blob).index
            #expect(
                try Scene.look { try $0.handles(from: index.handle, count: 1) } != [index.handle],
                situation)
        case .failed(let error):
            #expect(error.code != .invalidated, "\(situation): \(error)")
            // A change that the attacker let happen is not undone, and nothing else is lost.
            let key =
                [.changeRevocablePIN, .delete, .signRevocable].contains(operation)
                ? subject.revocable : subject.plain
            let withOld = await refusal(keystore, key, pin: Self.old)
            switch operation {
            case .delete: #expect([nil, .invalidated].contains(withOld), situation)
            case .changeRevocablePIN where withOld != nil:
                #expect(await refusal(keystore, key, pin: Self.new) == nil, situation)
            default: #expect(withOld == nil, situation)
            }
        }
    }

    private func refusal(_ keystore: TPMKeystore, _ key: HardwareKey, pin: String) async
        -> KeystoreError.Code?
    {
        let error = await Scene.error { () async throws(KeystoreError) in
            try await Scene.sign(keystore, key, pin: pin)
        }
        return error?.code
    }

    /// Flushes what a forged answer has left loaded, and has no attempt counted.
    private func clear() throws {
        try Scene.look { tpm in
            for handle in try tpm.handles(from: .transientFirst)
                + tpm.handles(from: .loadedSessionFirst)
            {
                try tpm.execute(FlushContext(handle))
            }
            try Scene.resetCount(tpm)
        }
    }

    /// Makes room for the next subject.
    private func remove(_ subject: Subject) throws {
        try clear()
        try Scene.look { tpm in
            let first = TPMHandle(rawValue: RevocableSecret.indices.lowerBound)
            for handle in try tpm.handles(from: first)
            where RevocableSecret.indices.contains(handle.rawValue) {
                try tpm.execute(NVUndefineSpace(try tpm.execute(NVReadPublic(handle))))
            }
        }
    }
}
