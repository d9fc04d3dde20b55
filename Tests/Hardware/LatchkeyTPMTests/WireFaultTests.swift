import Dispatch
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import Testing

/// Every command of every use of a TPM, with every fault on the wire: each ends with the success or
/// the error that the table says, loses nothing, and leaves nothing loaded that the program could
/// know of.
@Suite(.softwareTPM, .requires(program: "swtpm"), .timeLimit(.minutes(15)))
struct WireFaultTests {
    enum Operation: String, CaseIterable { case create, sign, changePIN, unseal }

    private static let faults: [FaultyTPM.Fault] = [
        .lostCommand, .lostAnswer, .late(150), .flippedBit(fromEnd: 0), .flippedBit(fromEnd: 24),
        .cutAnswer(3),
        .shortAnswer(3), .stale, .replayed, .code(0x101, times: 1), .code(0x902, times: 1),
        .code(0x903, times: 1),
        .code(0x902, times: 100), .code(0x903, times: 100), .code(0x908, times: 2),
        .code(0x922, times: 1),
        .code(0x922, times: 2),
        .code(0x922, times: 100), .code(0x923, times: 1),
    ]

    /// The ends that are right: nil is success.
    private static func ends(_ command: TPMCommandCode, _ fault: FaultyTPM.Fault) -> Set<
        KeystoreError.Code?
    > {
        switch fault {
        // The TPM only took its time, or more than one command.
        case .late, .oneValue, .code(0x922, times: 1): [nil]
        // A PIN is sent again once, and only where the TPM did not start the command.
        case .code(0x908, times: 2), .code(0x922, times: 2):
            [.sign, .unseal, .objectChangeAuth].contains(command) ? [.transient] : [nil]
        case .lostCommand, .lostAnswer, .cutAnswer: [.transient]
        // FlushContext answers with a header, which can't be shortened, and always the same.
        case .shortAnswer: command == .flushContext ? [nil] : [.unavailable]
        case .stale: command == .flushContext ? [nil, .unavailable] : [.unavailable]
        case .code(0x101, _): [.unavailable]
        // Who finds no place begins again, where nothing was proven yet.
        case .code(0x902, times: 1):
            [.load, .startAuthSession, .create, .readPublic].contains(command)
                ? [nil] : [.transient]
        case .code(0x903, times: 1): command == .startAuthSession ? [nil] : [.transient]
        case .code: [.transient]
        case .flippedBit, .replayed, .reset: changed(command, fault)
        }
    }

    /// The possible results of a forged response, by command.
    private static func changed(_ command: TPMCommandCode, _ fault: FaultyTPM.Fault) -> Set<
        KeystoreError.Code?
    > {
        switch command {
        // The response is constant, so a changed one is invalid.
        case .flushContext: fault == .replayed ? [nil] : [.unavailable]
        // An attacker can forge responses without a session: a wrong lockout counter, another
        // public key (the qualified Name is not read), and a session nonce that makes the TPM
        // reject the session.
        case .getCapability: [nil, .unavailable, .lockedOut]
        case .readPublic: [nil, .unavailable, .wrongDevice]
        case .startAuthSession: [.refused, .wrongProof, .wrongDevice, .unavailable]
        default: [.unavailable]
        }
    }

    /// The number of objects and sessions that may stay loaded, because the program or the TPM
    /// missed a message.
    private static func left(_ command: TPMCommandCode, _ fault: FaultyTPM.Fault) -> Int {
        switch fault {
        case .lostAnswer, .cutAnswer, .replayed, .flippedBit:
            [.startAuthSession, .load].contains(command) ? 1 : 0
        // The object and the session.
        case .code(_, times: 100): command == .flushContext ? 2 : 0
        case .lostCommand, .stale, .code: command == .flushContext ? 1 : 0
        case .late, .oneValue, .shortAnswer, .reset: 0
        }
    }

    @Test(arguments: Operation.allCases)
    func `each fault at each command has the result in the table`(_ operation: Operation)
        async throws
    {
        let tpm = try SoftwareTPM.current
        let faulty = try FaultyTPM(tpm)
        let keystore = TPMKeystore(tcti: faulty.tcti, anchors: MemoryTrustAnchors())
        let key = try await Scene.key(keystore)
        let secret = try await keystore.seal(
            SecretBytes.random(count: 32), policy: .pin, for: Scene.prompt,
            authorizedBy: ScriptedPresence(pins: "123456"))
        // After its start a TPM wants the first use of a PIN again.
        try await Scene.sign(keystore, key)
        faulty.arm()
        try await perform(operation, keystore, key, secret)
        let commands = faulty.commands.map(TPMCommandCode.init(rawValue:))
        #expect(commands.count >= 3)
        for (index, command) in commands.enumerated() {
            for fault in Self.faults
            where !Self.lasts(fault) || commands.firstIndex(of: command) == index {
                faulty.arm(fault, at: index)
                let error = await Scene.error { () async throws(KeystoreError) in
                    try await perform(operation, keystore, key, secret)
                }
                faulty.arm()
                let situation: Comment =
                    "\(operation), \(fault) at \(index): \(command): \(String(describing: error))"
                #expect(Self.ends(command, fault).contains(error?.code), situation)
                try check(situation, leaving: Self.left(command, fault))
                try await Scene.sign(keystore, key)
                _ = try await keystore.unseal(
                    secret, for: Scene.prompt, authorizedBy: ScriptedPresence(pins: "123456"))
            }
        }
    }

    /// A TPM that is reset has lost what was loaded, and knows no session any more.
    @Test(arguments: Operation.allCases, [true, false])
    func `a TPM that is reset or switched off before a command gives an error, then works again`(
        _ operation: Operation, comesBack: Bool
    ) async throws {
        let tpm = try SoftwareTPM.current
        let faulty = try FaultyTPM(tpm) {
            let isDone = DispatchSemaphore(value: 0)
            Task {
                await tpm.cutPower()
                if comesBack { try? await tpm.start() }
                isDone.signal()
            }
            isDone.wait()
        }
        let keystore = TPMKeystore(tcti: faulty.tcti, anchors: MemoryTrustAnchors())
        let key = try await Scene.key(keystore)
        let secret = try await keystore.seal(
            SecretBytes.random(count: 32), policy: .pin, for: Scene.prompt,
            authorizedBy: ScriptedPresence(pins: "123456"))
        try await Scene.sign(keystore, key)
        faulty.arm()
        try await perform(operation, keystore, key, secret)
        let commands = faulty.commands.map(TPMCommandCode.init(rawValue:))
        for (index, command) in commands.enumerated() {
            faulty.arm(.reset, at: index)
            let error = await Scene.error { () async throws(KeystoreError) in
                try await perform(operation, keystore, key, secret)
            }
            faulty.arm()
            let situation: Comment =
                "\(operation), reset at \(index): \(command): \(String(describing: error))"
            // Before the first things are loaded a reset is none.
            let expected: Set<KeystoreError.Code?> =
                comesBack ? [nil, .transient, .failed] : [.transient, .unavailable]
            #expect(expected.contains(error?.code), situation)
            try await tpm.start()
            try check(situation, leaving: 0)
            try await Scene.sign(keystore, key)
            _ = try await keystore.unseal(
                secret, for: Scene.prompt, authorizedBy: ScriptedPresence(pins: "123456"))
        }
    }

    private static func lasts(_ fault: FaultyTPM.Fault) -> Bool {
        if case .code(_, times: 100) = fault { true } else { false }
    }

    /// That nothing is left loaded; then the TPM is as before.
    private func check(_ situation: Comment, leaving count: Int) throws {
        try Scene.look { tpm in
            let left =
                try tpm.handles(from: .transientFirst) + tpm.handles(from: .loadedSessionFirst)
            #expect(left.count <= count, situation)
            for handle in left { try tpm.execute(FlushContext(handle)) }
            try Scene.resetCount(tpm)
        }
    }

    private func perform(
        _ operation: Operation, _ keystore: TPMKeystore, _ key: HardwareKey, _ secret: SealedSecret
    ) async throws(KeystoreError) {
        let presence = ScriptedPresence(pins: "123456", "654321")
        switch operation {
        case .create:
            _ = try await keystore.createKey(
                KeyRequest(policy: .pin, prompt: Scene.prompt), authorizedBy: presence)
        case .sign:
            _ = try await keystore.sign(
                Scene.digest, with: key, for: Scene.prompt, authorizedBy: presence)
        case .changePIN:
            _ = try await keystore.changePIN(
                of: [key], secrets: [], for: Scene.prompt, authorizedBy: presence)
        case .unseal:
            _ = try await keystore.unseal(secret, for: Scene.prompt, authorizedBy: presence)
        }
    }
}
