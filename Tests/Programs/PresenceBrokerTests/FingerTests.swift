import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPresence
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// The broker in its own process, with the real fprintd, the real dbus-daemon and swtpm.
@Suite(
    .requires(program: "dbus-daemon"), .requires(program: "fprintd-enroll"),
    .requires(program: "gdbus"), .softwareTPM,
    .virtualFinger)
struct FingerTests {
    @Test func `the user's finger signs, and the prompt names the requester`() async throws {
        try await BrokerScene.with { scene in
            let key = try await scene.key(.biometryAny)
            let signature = try await scene.sign(
                key, showing: .tooShort, .offCentre, .unreadable, .finger("mine"))
            #expect(key.publicKey.isValid(signature, for: BrokerScene.digest))
            #expect(
                scene.progress.words == [.waiting, .swipeTooShort, .centreFinger, .retry, .matched])
            let prompt = try #require(scene.progress.prompts.first)
            let process = ProcessInfo.processInfo.processIdentifier
            #expect(
                prompt.hasPrefix("Process \(process) of \(BrokerScene.user), which calls itself “"))
            #expect(
                prompt.hasSuffix(
                    "”, asks for a finger of \(BrokerScene.user). Its reason: “test a finger” (container “tests”)."
                ))
        }
    }

    @Test func `a finger that does not match is refused, and five lock the user out for a while`()
        async throws
    {
        try await BrokerScene.with { scene in
            let key = try await scene.key(.biometryAny)
            for _ in 0..<5 {
                #expect(
                    try await scene.refusal(key, showing: .finger("another's"))?.code == .wrongProof
                )
            }
            #expect(try await scene.refusal(key)?.code == .lockedOut)
            guard case .lockedOut(let until?) = await scene.client.fingerState() else {
                Issue.record("the state does not say so")
                return
            }
            #expect((1...61).contains(until.timeIntervalSinceNow), "rounded up")
        }
    }

    @Test func `a lock applies to requests that are already waiting`() async throws {
        try await BrokerScene.with { scene in
            let key = try await scene.key(.biometryAny)
            for _ in 0..<4 {
                #expect(
                    try await scene.refusal(key, showing: .finger("another's"))?.code == .wrongProof
                )
            }
            let before = scene.progress.words.count { $0 == .waiting }
            let first = Task { try await scene.refusal(key) }
            try await scene.progress.wait(for: .waiting, times: before + 1)
            let second = Task { try await scene.refusal(key) }
            try await scene.progress.wait(for: .queued)
            try await scene.reader.present(.finger("another's"))
            #expect(try await first.value?.code == .wrongProof)
            #expect(try await second.value?.code == .lockedOut)
            #expect(
                scene.progress.words.count { $0 == .waiting } == before + 1,
                "no finger is looked at")
        }
    }

    @Test func `a timeout declines the request`() async throws {
        try await BrokerScene.with(timeLimit: 15) { scene in
            let key = try await scene.key(.biometryAny)
            let error = try await scene.refusal(key)
            #expect(error?.code == .cancelled)
            #expect(error?.reason == "no finger was placed in time")
            #expect(scene.progress.words == [.waiting, .withdrawn])
        }
    }

    @Test func `a cancelled request frees the reader for the next`() async throws {
        try await BrokerScene.with { scene in
            let key = try await scene.key(.biometryAny)
            let waiting = Task { try await scene.refusal(key) }
            try await scene.progress.wait(for: .waiting)
            waiting.cancel()
            #expect(try await waiting.value?.code == .cancelled)
            try await scene.sign(key, showing: .finger("mine"))
        }
    }

    @Test func `a request that is cancelled before it is sent does not delay others`() async throws
    {
        try await BrokerScene.with { scene in
            let request = ApprovalRequest(
                use: .sign(BrokerScene.digest),
                keyName: Data([0x00, 0x0b] + [UInt8](repeating: 1, count: 32)),
                nonceTPM: Data(repeating: 1, count: 32), policy: .biometryAny,
                context: BrokerScene.prompt)
            for _ in 0..<10 {
                let asking = Task {
                    withUnsafeCurrentTask { $0?.cancel() }
                    return try await scene.client.approve(request)
                }
                #expect(try await asking.value == .declined("the request was cancelled"))
            }
            let key = try await scene.key(.biometryAny)
            try await scene.sign(key, showing: .finger("mine"))
        }
    }

    /// Some readers do not answer after a sleep during a verification, until fprintd is restarted.
    @Test(.requires(program: "python3")) func `a sleep of the machine frees the reader`()
        async throws
    {
        try await BrokerScene.with { scene in
            let logind = try await SleepAnnouncer(on: scene.reader.busAddress)
            let key = try await scene.key(.biometryAny)
            let waiting = Task { try await scene.refusal(key) }
            try await scene.progress.wait(for: .waiting)
            try await logind.announce(false, to: PresenceWire.name)
            try await logind.announce(true, to: PresenceWire.name)
            let error = try await waiting.value
            #expect(error?.code == .cancelled)
            #expect(error?.reason == "the request was cancelled", "not the time limit")
            try await scene.sign(key, showing: .finger("mine"))
            await logind.end()
        }
    }

    @Test func `a subscriber sees the prompts of all programs of its user`() async throws {
        try await BrokerScene.with { scene in
            let key = try await scene.key(.biometryAny)
            let desktop = try await scene.client.prompts()
            try await scene.sign(key, showing: .finger("mine"))
            let seen = try await desktop.progress(upTo: .matched) { prompt in
                #expect(prompt.text.contains("“test a finger”"))
            }
            #expect(seen == [.waiting, .matched])
        }
    }

    @Test func `two requests run one after the other`() async throws {
        try await BrokerScene.with { scene in
            let key = try await scene.key(.biometryAny)
            async let first = scene.sign(key)
            try await scene.progress.wait(for: .waiting)
            async let second = scene.sign(key)
            try await scene.progress.wait(for: .queued)
            try await scene.reader.present(.finger("mine"))
            _ = try await first
            try await scene.reader.present(.finger("mine"))
            _ = try await second
        }
    }

    @Test func `the reader's faults have different errors`() async throws {
        try await BrokerScene.with { scene in
            let key = try await scene.key(.biometryAny)
            #expect(try await scene.refusal(key, showing: .failure)?.code == .unavailable)
            try await scene.sign(key, showing: .finger("mine"))
            let waiting = Task { try await scene.refusal(key) }
            try await scene.progress.wait(for: .waiting)
            while scene.progress.words.count(where: { $0 == .waiting }) < 3 { await Task.yield() }
            await scene.reader.stop()
            #expect(try await waiting.value?.code == .unavailable)
            #expect(try await scene.refusal(key)?.code == .unavailable, "no fprintd")
            try await scene.reader.start()
            try await scene.sign(key, showing: .finger("mine"))
        }
    }

    @Test func `a broker that ends during a prompt gives an error, and the next request works`()
        async throws
    {
        try await BrokerScene.with { scene in
            let key = try await scene.key(.biometryAny)
            let waiting = Task { try await scene.refusal(key) }
            try await scene.progress.wait(for: .waiting)
            await scene.broker.stop(SIGKILL)
            #expect(try await waiting.value?.code == .transient)
            #expect(try await scene.refusal(key)?.code == .unavailable, "no broker")
            try await scene.broker.start()
            try await scene.sign(key, showing: .finger("mine"))
        }
    }

    @Test func `without an enrolled finger no key is made, and the state says why`() async throws {
        try await BrokerScene.with(enrolled: []) { scene in
            #expect(await scene.client.fingerState() == .notEnrolled)
            await #expect(
                throws: KeystoreError(operation: "", code: .notEnrolled, reason: "", recovery: "")
            ) {
                _ = try await scene.key(.biometryAny)
            }
            await scene.reader.stop()
            guard case .notAvailable = await scene.client.fingerState() else {
                Issue.record("a reader without fprintd")
                return
            }
            await scene.broker.stop()
            #expect(
                await scene.client.fingerState()
                    == .notAvailable("the presence broker is not running"))
        }
    }

    @Test
    func `enrolling or deleting a finger invalidates only keys of the current set, permanently`()
        async throws
    {
        try await BrokerScene.with { scene in
            let bound = try await scene.key(.biometryCurrentSet)
            let free = try await scene.key(.biometryAny)
            try await scene.sign(bound, showing: .finger("mine"))
            try await scene.reader.enroll(.rightIndex, as: "another", for: BrokerScene.user)
            #expect(try await scene.refusal(bound)?.code == .invalidated)
            // The virtual sensor does not distinguish fingers, so fprintd searches for the first
            // one enrolled.
            try await scene.sign(free, showing: .finger("mine"))
            let second = try await scene.key(.biometryCurrentSet)
            try await scene.reader.delete(.rightIndex, of: BrokerScene.user)
            #expect(try await scene.refusal(second)?.code == .invalidated)
            #expect(
                try await scene.refusal(bound)?.code == .invalidated,
                "the same fingers are a new set")
            try await scene.sign(free, showing: .finger("mine"))
            let last = try await scene.key(.biometryCurrentSet)
            try await scene.reader.delete(of: BrokerScene.user)
            #expect(try await scene.refusal(last)?.code == .invalidated, "no finger is left")
            #expect(try await scene.refusal(free)?.code == .notEnrolled)
        }
    }

    @Test func `a finger that is enrolled again counts as another, also if its file can't be read`()
        async throws
    {
        for seesPrints in [true, false] {
            try await BrokerScene.with(seesPrints: seesPrints) { scene in
                let bound = try await scene.key(.biometryCurrentSet)
                try await scene.sign(bound, showing: .finger("mine"))
                try await scene.reader.delete(of: BrokerScene.user)
                try await scene.reader.enroll(.leftThumb, as: "mine", for: BrokerScene.user)
                #expect(try await scene.refusal(bound)?.code == .invalidated)
                let next = try await scene.key(.biometryCurrentSet)
                try await scene.reader.enroll(.rightThumb, as: "another", for: BrokerScene.user)
                await scene.broker.stop()
                try await scene.broker.start()
                #expect(
                    try await scene.refusal(next)?.code == .invalidated,
                    "enrolled while the broker was running")
                try await scene.reader.delete(of: BrokerScene.user)
            }
        }
    }

    @Test func `finger and PIN are offered together, and a finger ends a locked PIN`() async throws
    {
        try await BrokerScene.with { scene in
            let key = try await scene.key(
                .userPresence, ScriptedPresence([.pin("123456")], broker: scene.client))
            #expect(key.assurance.pinProtection == .user)
            try await scene.sign(
                key, ScriptedPresence([.hesitate], broker: scene.client), showing: .finger("mine"))
            try await scene.sign(key, ScriptedPresence([.pin("123456")], broker: scene.client))
            for _ in 0..<10 {
                let wrong = ScriptedPresence(
                    [.pin("654321")], broker: scene.client, preferring: .pin)
                #expect(try await scene.refusal(key, wrong)?.code == .wrongProof)
            }
            let right = {
                ScriptedPresence([.pin("123456")], broker: scene.client, preferring: .pin)
            }
            #expect(try await scene.refusal(key, right())?.code == .lockedOut)
            try await scene.sign(key, showing: .finger("mine"))
            try await scene.sign(key, right())
        }
    }

    @Test func `the broker keeps its key over a restart, and its state is private`() async throws {
        try await BrokerScene.with { scene in
            let key = try await scene.key(.biometryAny)
            let status = await scene.broker.stop()
            #expect(status == 0)
            let state = "\(scene.broker.stateDirectory.path)/authority.json"
            let mode =
                try FileManager.default.attributesOfItem(atPath: state)[.posixPermissions] as? Int
            #expect(mode == 0o600)
            let secret = "\(scene.broker.stateDirectory.path)/authority.secret"
            #expect(
                try FileManager.default.attributesOfItem(atPath: secret)[.posixPermissions] as? Int
                    == 0o600)
            try await scene.broker.start()
            try await scene.sign(key, showing: .finger("mine"))
        }
    }
}
