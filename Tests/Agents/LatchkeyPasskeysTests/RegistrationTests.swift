import Crypto
import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import Testing

@testable import LatchkeyPasskeys

/// authenticatorMakeCredential on a software TPM, with PINs.
@Suite(.softwareTPM) struct RegistrationTests {
    @Test func `a registration verifies the user once, attests itself and stores the passkey`()
        async throws
    {
        try await Rig.with { rig in
            let answer = try await rig.ask(
                Rig.registration(changes: [
                    6: .map([
                        "credProtect": .integer(2), "hmac-secret": .boolean(true),
                        "other": .integer(1),
                    ])
                ]))
            #expect(answer[1]?.text == "packed")
            let data = try #require(answer[2]?.bytes)
            #expect(Array(data[..<32]) == Array(SHA256.hash(data: Array("example.org".utf8))))
            #expect(data[32] == 0xC5, "UP, UV, AT and ED")
            #expect(Array(data[33..<37]) == [0, 0, 0, 0])
            #expect(Array(data[37..<53]) == AAGUID.software.bytes)
            let credential = try Rig.credential(data)
            #expect(credential.id.count == 32)
            #expect(
                credential.extensions
                    == .map(["credProtect": .integer(2), "hmac-secret": .boolean(true)]))
            let signature = try #require(answer[3]?.map?["sig"]?.bytes)
            #expect(answer[3]?.map?["alg"] == .integer(-7))
            #expect(try Rig.isValid(signature, credential.key, data))
            let stored = try #require(try rig.store.list().first)
            #expect(Array(stored.id) == credential.id)
            #expect(stored.macKey != nil && stored.protection == 2 && stored.userName == "ada")
            #expect(rig.prompt.pins.map(\.purpose) == [.new], "the PIN is typed once")
            #expect(rig.prompt.questions.map(\.purpose) == [.create(replaces: false)])
            #expect(
                rig.prompt.questions.first?.reason(account: 0)
                    == "create a passkey for “example.org” as “ada” (requested by “firefox”)")
        }
    }

    @Test func `a software TPM has another AAGUID than hardware`() async throws {
        try await Rig.with { rig in
            let root = try await rig.keystore.capabilities().root
            #expect(AAGUID(of: root) == .software)
        }
        #expect(
            AAGUID(of: .tpm) == .hardware && AAGUID(of: .token) == .hardware
                && AAGUID(of: .softhsm) == .software)
        #expect(AAGUID.hardware != .software)
    }

    @Test func `all passkeys get the first one's PIN`() async throws {
        try await Rig.with { rig in
            _ = try await rig.ask(Rig.registration(user: "ada"))
            _ = try await rig.ask(Rig.registration(user: "eve"))
            #expect(rig.prompt.pins.map(\.purpose) == [.new, .current])
            #expect(try rig.store.list().count == 2)
        }
    }

    @Test func `a client that prefers no attestation gets none`() async throws {
        try await Rig.with { rig in
            let answer = try await rig.ask(Rig.registration(changes: [11: .array([.text("none")])]))
            #expect(answer[1]?.text == "none" && answer[3] == .map([:]))
            #expect(answer[2]?.bytes?[32] == 0x45)
        }
    }

    @Test func `the same account replaces its passkey, and other credentials of the site stay`()
        async throws
    {
        try await Rig.with { rig in
            _ = try await rig.ask(Rig.registration())
            _ = try await rig.ask(Rig.registration(rk: false))
            let before = try rig.store.list().map(\.id)
            _ = try await rig.ask(Rig.registration())
            let after = try rig.store.list()
            #expect(after.count == 2)
            #expect(!after.contains { $0.id == before[0] } && after.contains { $0.id == before[1] })
            #expect(
                rig.prompt.questions.map(\.purpose)
                    == [
                        .create(replaces: false), .create(replaces: false), .create(replaces: true),
                    ])
        }
    }

    @Test func `an excluded credential is only revealed after a prompt`() async throws {
        try await Rig.with { rig in
            let registered = try await rig.ask(Rig.registration())
            let id = try Rig.credential(try #require(registered[2]?.bytes)).id
            let excluded = Rig.registration(user: "eve", changes: [5: Rig.list([1], id)])
            #expect(await rig.status(excluded) == 0x19)
            #expect(rig.prompt.questions.last?.purpose == .alreadyRegistered)
            #expect(try rig.store.list().count == 1)
        }
    }

    @Test func `a request with as many IDs as getInfo announces fits into a message`() async throws
    {
        try await Rig.with { rig in
            let info = try await rig.ask([4])
            let (count, length) = (
                try #require(info[7]?.integer), try #require(info[8]?.integer)
            )
            #expect(count == 16 && length == 32)
            let ids = (0..<count).map { index -> CBORValue in
                .map([
                    "id": .bytes([UInt8](repeating: UInt8(index), count: length)),
                    "type": .text("public-key"),
                ])
            }
            let site = String(repeating: "a", count: 200)
            let request = Rig.assertion(site: site, changes: [3: .array(ids)])
            #expect(request.count <= CTAPHIDDevice.maximumRequestBytes, "\(request.count)")
        }
    }

    @Test func `a site is a domain, or the application of an SSH key`() async throws {
        try await Rig.with { rig in
            let long = String(repeating: "a", count: 254)
            for site in [
                "", long, "bank.example. The PIN is wrong", " bank.example", "bank.example\u{A0}",
                "bänk.example", "a\nb", "a\u{7F}", "a\u{0}", "a\u{85}", "a\u{202E}b", "a\u{2066}b",
                "a\u{200B}b", "a\u{3164}b", "a\u{FEFF}b", "a\u{FFFD}", "a“b", "ssh:a\u{202E}b",
                "ssh:a\u{200B}b", "ssh:a\nb", "ssh:a\u{2028}b", "Ssh:a b", "xssh:a b",
            ] {
                #expect(await rig.status(Rig.registration(site: site)) == 0x02, "\(site)")
                #expect(await rig.status(Rig.assertion(site: site)) == 0x02, "\(site)")
            }
            #expect(rig.prompt.questions.isEmpty)
            let sites = [
                "xn--bnk-qla.example", "localhost", "pam://host", "ssh:", "ssh:mein Schlüssel",
            ]
            for site in sites {
                #expect(await rig.status(Rig.registration(site: site)) == 0, "\(site)")
            }
            #expect(rig.prompt.questions.map(\.site) == sites)
        }
    }

    @Test func `invalid requests have their statuses and no prompt`() async throws {
        try await Rig.with { rig in
            for (changes, status) in [
                ([1: .bytes([1])], 0x03), ([1: .text("x")], 0x11), ([2: .map([:])], 0x14),
                ([2: .map(["id": .text("")])], 0x02),
                ([3: .map(["id": .bytes([])])], 0x03),
                ([4: .array([.map(["alg": .integer(-8), "type": .text("public-key")])])], 0x26),
                ([4: .array([.map(["type": .text("public-key")])])], 0x14),
                ([4: .array([.map(["alg": .integer(-7)])])], 0x14),
                ([4: .array([.map(["alg": .integer(-7), "type": .integer(1)])])], 0x11),
                ([4: .array([.integer(1)])], 0x11),
                ([5: .array([.map(["type": .text("public-key")])])], 0x14),
                ([5: .array([.map(["id": .bytes([1])])])], 0x14),
                ([6: .map(["credProtect": .integer(4)])], 0x02),
                ([7: .map(["up": .boolean(false)])], 0x2C),
                ([8: .bytes([1, 2])], 0x33), ([10: .integer(1)], 0x02),
                ([7: .map(["rk": .integer(1)])], 0x11),
            ] as [([CBORKey: CBORValue], UInt8)] {
                #expect(
                    await rig.status(Rig.registration(changes: changes)) == status, "\(changes)")
            }
            for (request, status) in [
                ([], 0x01), ([1], 0x12), ([0x0A], 0x01), ([0x0C], 0x01), ([0x0D], 0x01),
                ([0x09], 0x01), ([0x40], 0x01),
                ([7], 0x30), ([8], 0x30), ([1, 0xA0, 0], 0x12), ([6, 0xA1, 2, 1], 0x3E),
                ([6, 0xA1, 2, 5], 0x3E),
                ([6, 0xA0], 0x14), ([2, 0x80], 0x11), ([4, 0xA0], 0x03), ([4, 0], 0x03),
                ([7, 0xA0], 0x03), ([8, 0], 0x03), ([0x0B, 0xA0], 0x03), ([6, 0xA1, 2, 2], 0x14),
                ([6, 0xA2, 1, 3, 2, 2], 0x02),
            ] as [([UInt8], UInt8)] {
                #expect(await rig.status(request) == status, "\(request)")
            }
            #expect(rig.prompt.questions.isEmpty && rig.prompt.pins.isEmpty)
        }
    }

    @Test func `a declined PIN is a refusal, and two wrong ones are UV_INVALID`() async throws {
        let script = ScriptedPrompt(authority: { ScriptedPresence([.pin("123456")]) })
        try await Rig.with(script) { rig in
            _ = try await rig.ask(Rig.registration())
            let key = try #require(try rig.store.list().first)
            for (step, status) in [(ScriptedPresence.Step.decline, 0x27), (.pin("654321"), 0x3F)]
                as [(ScriptedPresence.Step, UInt8)]
            {
                let prompt = ScriptedPrompt(authority: { ScriptedPresence([step, step]) })
                let engine = PasskeyEngine(
                    keystore: rig.keystore, store: rig.store, prompt: prompt, policy: { .pin },
                    clock: rig.clock.clock)
                let answer = await Authenticator(engine).respond(
                    to: Rig.assertion(changes: [3: Rig.list(Array(key.id))]))
                #expect(answer == [status])
            }
            #expect(try rig.store.list().count == 1)
        }
    }

    @Test func `the policy is read for each new passkey, and an error of it creates none`()
        async throws
    {
        try await Rig.with { rig in
            let isRefused = Mutex(false)
            let engine = PasskeyEngine(
                keystore: rig.keystore, store: rig.store, prompt: rig.prompt,
                policy: { () throws(KeystoreError) in
                    guard !isRefused.withLock(\.self) else {
                        throw .invalidInput("the minimum was raised")
                    }
                    return .pin
                }, clock: rig.clock.clock)
            let authenticator = Authenticator(engine)
            func status(_ request: [UInt8]) async -> UInt8? {
                rig.clock.advance(by: PromptLimit.pauseTime)
                return await authenticator.respond(to: request).first
            }
            #expect(await status(Rig.registration()) == 0)
            isRefused.withLock { $0 = true }
            #expect(await status(Rig.registration(user: "eve")) == 0x7F)
            #expect(try rig.store.list().count == 1)
            #expect(rig.prompt.failures.last?.reason == "the minimum was raised")
            let stored = try #require(try rig.store.list().first)
            #expect(
                await status(Rig.assertion(changes: [3: Rig.list(Array(stored.id))])) == 0,
                "existing passkeys keep their policies")
        }
    }

    @Test func `dummy sites and probes prompt, use no key and store nothing`() async throws {
        try await Rig.with { rig in
            for site in [".dummy", "make.me.blink"] {
                rig.counter.forget()
                let answer = try await rig.ask(Rig.registration(site: site))
                let data = try #require(answer[2]?.bytes)
                #expect(data[32] == 0x41, "no verification took place")
                #expect(rig.counter.all.isEmpty)
            }
            #expect(await rig.status(Rig.registration(changes: [8: .bytes([])])) == 0x35)
            #expect(await rig.status(Rig.assertion(changes: [6: .bytes([])])) == 0x35)
            #expect(await rig.status([0x0B]) == 0)
            #expect(
                rig.prompt.questions.map(\.purpose) == Array(repeating: .selectDevice, count: 5))
            #expect(rig.prompt.pins.isEmpty)
            #expect(try rig.store.list().isEmpty)
        }
    }

    @Test func `getInfo announces verification with each request, and none while it is impossible`()
        async throws
    {
        try await Rig.with { rig in
            let info = try await rig.ask([4])
            #expect(info[1] == .array([.text("FIDO_2_0")]))
            #expect(
                info[4] == .map(["rk": .boolean(true), "up": .boolean(true), "uv": .boolean(true)]))
            #expect(info[5] == .integer(1200) && info[9] == .array([.text("usb")]))
            #expect(info[0x12] == .integer(4), "a PIN, and no fingerprint reader")
            #expect(info[0x14] == .integer(PasskeyStore.maximumCount))
        }
        try await Rig.with(policy: AccessPolicy.none) { rig in
            let info = try await rig.ask([4])
            #expect(info[4]?.map?["uv"] == .boolean(false) && info[0x12] == nil)
            #expect(
                await rig.status(Rig.registration()) == 0x7F,
                "a key without verification is refused")
            #expect(try rig.store.list().isEmpty)
        }
    }
}
