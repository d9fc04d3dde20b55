import Crypto
import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import Testing

@testable import LatchkeyPasskeys

/// authenticatorGetAssertion on a software TPM, with PINs.
@Suite(.softwareTPM) struct AssertionTests {
    @Test func `a login verifies the user once and signs the approved account`() async throws {
        let prompt = ScriptedPrompt { question in .use(question.accounts.firstIndex(of: "ada") ?? 0)
        }
        try await Rig.with(prompt) { rig in
            let registered = try await rig.ask(Rig.registration(user: "ada"))
            let ada = try Rig.credential(try #require(registered[2]?.bytes))
            _ = try await rig.ask(Rig.registration(user: "eve"))
            let answer = try await rig.ask(Rig.assertion())
            #expect(rig.prompt.questions.last?.accounts == ["eve", "ada"], "newest first")
            #expect(
                rig.prompt.questions.last?.reason(account: 1)
                    == "log in to “example.org” as “ada” (requested by “firefox”)")
            #expect(answer[1]?.map?["id"]?.bytes == ada.id)
            #expect(answer[4] == .map(["id": .bytes(Array("ada".utf8))]), "no names")
            #expect(answer[6] == .boolean(true) && answer[5] == nil)
            let data = try #require(answer[2]?.bytes)
            #expect(data.count == 37 && data[32] == 0x05)
            #expect(try Rig.isValid(try #require(answer[3]?.bytes), ada.key, data))
            #expect(await rig.status([8]) == 0x30, "there is one answer")
        }
    }

    @Test func `a login takes the TPM commands of a signature`() async throws {
        try await Rig.with { rig in
            _ = try await rig.ask(Rig.registration())
            let stored = try #require(try rig.store.list().first)
            let key = stored.key
            let prompt = PromptContext(reason: "test")
            _ = try await rig.keystore.sign(
                MessageDigest(sha256: [1]), with: key, for: prompt,
                authorizedBy: ScriptedPresence(pins: "123456"))
            rig.counter.forget()
            _ = try await rig.keystore.sign(
                MessageDigest(sha256: [1]), with: key, for: prompt,
                authorizedBy: ScriptedPresence(pins: "123456"))
            let signature = rig.counter.all
            rig.counter.forget()
            _ = try await rig.ask(Rig.assertion())
            #expect(rig.counter.all == signature)
        }
    }

    @Test func `a probe is answered without a prompt and without the TPM`() async throws {
        try await Rig.with { rig in
            let registered = try await rig.ask(
                Rig.registration(changes: [6: .map(["credProtect": .integer(3)])]))
            let id = try Rig.credential(try #require(registered[2]?.bytes)).id
            let (questions, pins) = (rig.prompt.questions.count, rig.prompt.pins.count)
            rig.counter.forget()
            let silent: CBORValue = .map(["up": .boolean(false)])
            let answer = try await rig.ask(
                Rig.assertion(changes: [3: Rig.list([9], id), 5: silent]))
            let key = try #require(try rig.store.list().first).key.publicKey
            let data = try #require(answer[2]?.bytes)
            #expect(data[32] == 0)
            #expect(
                try !Rig.isValid(try #require(answer[3]?.bytes), key, data),
                "a temporary key signed")
            #expect(
                await rig.status(Rig.assertion(changes: [3: Rig.list([9]), 5: silent])) == 0x2E)
            #expect(
                await rig.status(
                    Rig.assertion(site: "other.org", changes: [3: Rig.list(id), 5: silent])) == 0x2E
            )
            #expect(rig.counter.all.isEmpty)
            #expect(rig.prompt.questions.count == questions && rig.prompt.pins.count == pins)
        }
    }

    @Test func `a probe without a list finds only credentials at level 1 of credProtect`()
        async throws
    {
        try await Rig.with { rig in
            let silent: [CBORKey: CBORValue] = [5: .map(["up": .boolean(false)])]
            for level in [2, 3] {
                _ = try await rig.ask(
                    Rig.registration(
                        user: "user\(level)", changes: [6: .map(["credProtect": .integer(level)])]))
            }
            #expect(await rig.status(Rig.assertion(changes: silent)) == 0x2E)
            _ = try await rig.ask(Rig.registration(user: "ada"))
            let answer = try await rig.ask(Rig.assertion(changes: silent))
            #expect(answer[4] == .map(["id": .bytes(Array("ada".utf8))]) && answer[5] == nil)
            #expect(await rig.status([8]) == 0x30, "there is one answer")
        }
    }

    @Test func `an unknown credential is held without a prompt until the limit, or CANCEL`()
        async throws
    {
        try await Rig.with { rig in
            _ = try await rig.ask(Rig.registration(rk: false))
            let before = rig.prompt.questions.count
            /// Starts a login, and returns the first state that it reports; nil if it ends without
            /// one.
            func waiting() async -> (task: Task<[UInt8], Never>, status: KeepaliveStatus?) {
                let (reports, report) = AsyncStream.makeStream(of: KeepaliveStatus.self)
                let task = Task {
                    defer { report.finish() }
                    return await rig.authenticator.respond(to: Rig.assertion()) { report.yield($0) }
                }
                return (task, await reports.first { _ in true })
            }
            rig.clock.advance(by: PromptLimit.pauseTime)
            let late = await waiting()
            try #require(late.status == .userPresenceNeeded)
            rig.clock.advance(by: .seconds(29))
            #expect(
                await rig.authenticator.respond(to: [4]) == [0x06], "one request at a time")
            rig.clock.advance(by: .seconds(1))
            #expect(await late.task.value == [0x2F])
            let cancelled = await waiting()
            #expect(cancelled.status == .userPresenceNeeded)
            cancelled.task.cancel()
            #expect(await cancelled.task.value == [0x2D])
            #expect(rig.prompt.questions.count == before)
        }
    }

    @Test
    func `“no” refuses and stops prompts of the site for ten seconds; “not here” stays silent`()
        async throws
    {
        let prompt = ScriptedPrompt { question in
            question.site == "here.org" ? .use(0) : question.site == "no.org" ? .no : .notHere
        }
        try await Rig.with(prompt) { rig in
            #expect(await rig.status(Rig.registration(site: "no.org")) == 0x27)
            #expect(await rig.status(Rig.registration(site: "no.org")) == 0x27)
            #expect(rig.prompt.questions.count == 1, "a page that prompts in a row")
            _ = try await rig.ask(Rig.registration(site: "here.org"))
            rig.clock.advance(by: .seconds(10))
            #expect(await rig.status(Rig.registration(site: "no.org")) == 0x27)
            #expect(rig.prompt.questions.count == 3)
            rig.clock.advance(by: PromptLimit.pauseTime)
            let silent = Task {
                await rig.authenticator.respond(to: Rig.registration(site: "elsewhere.org"))
            }
            await poll {
                rig.prompt.questions.last?.site == "elsewhere.org" && rig.prompt.open == 0
            }
            rig.clock.advance(by: .seconds(30))
            #expect(await silent.value == [0x2F])
        }
    }

    @Test func `a choice in the window of the verification counts like one before it`()
        async throws
    {
        try await Rig.with { rig in
            _ = try await rig.ask(Rig.registration())
            let prompt = ScriptedPrompt(authority: { ScriptedPresence([.decline]) })
            let authenticator = Authenticator(
                PasskeyEngine(
                    keystore: rig.keystore, store: rig.store, prompt: prompt,
                    clock: rig.clock.clock))
            for _ in 1...2 {
                rig.clock.advance(by: PromptLimit.pauseTime)
                #expect(await authenticator.respond(to: Rig.assertion()) == [0x27])
            }
            #expect(prompt.questions.count == 1, "a refusal stops prompts of the site")
            rig.clock.advance(by: .seconds(10))
            prompt.refuse(by: .notHere)
            let silent = Task { await authenticator.respond(to: Rig.assertion()) }
            #expect(await poll { prompt.pins.count == 2 })
            rig.clock.advance(by: .seconds(60))
            #expect(await silent.value == [0x2F])
        }
    }

    @Test func `the PIN has its own time, after the question's`() async throws {
        let clock = ManualClock()
        let prompt = ScriptedPrompt(
            answer: { _ in
                clock.advance(by: .seconds(29))
                return .use(0)
            },
            authority: {
                clock.advance(by: .seconds(29))
                return ScriptedPresence(pins: "123456")
            })
        try await Rig.with(prompt, clock: clock) { rig in
            _ = try await rig.ask(Rig.registration())
            _ = try await rig.ask(Rig.assertion())
        }
    }

    @Test func `the PIN of a new passkey has a limit`() async throws {
        let prompt = ScriptedPrompt(authority: { ScriptedPresence([.hesitate]) })
        try await Rig.with(prompt) { rig in
            let (reports, report) = AsyncStream.makeStream(of: KeepaliveStatus.self)
            let late = Task {
                await rig.authenticator.respond(to: Rig.registration()) { report.yield($0) }
            }
            #expect(await poll { rig.prompt.pins.count == 1 })
            rig.clock.advance(by: .seconds(60))
            #expect(await late.value == [0x2F])
            report.finish()
            let reported = await reports.reduce(into: [KeepaliveStatus]()) { $0.append($1) }
            #expect(reported == [.userPresenceNeeded])
            #expect((try? rig.store.count()) == 0)
        }
    }

    @Test func `the limit and CANCEL close the prompt`() async throws {
        let prompt = ScriptedPrompt { _ in await ScriptedPrompt.hesitate() }
        try await Rig.with(prompt) { rig in
            let late = Task { await rig.authenticator.respond(to: [0x0B]) }
            #expect(await poll { rig.prompt.open == 1 })
            rig.clock.advance(by: .seconds(30))
            #expect(await late.value == [0x2F])
            #expect(rig.prompt.open == 0)
            rig.clock.advance(by: PromptLimit.pauseTime)
            let cancelled = Task { await rig.authenticator.respond(to: Rig.registration()) }
            #expect(await poll { rig.prompt.open == 1 })
            cancelled.cancel()
            #expect(await cancelled.value == [0x2D])
            #expect(rig.prompt.open == 0)
            let stored = try rig.store.list()
            #expect(stored.isEmpty)
        }
    }

    @Test
    func
        `the end of the running request closes its prompt, and the device answers the next request`()
        async throws
    {
        let prompt = ScriptedPrompt { _ in await ScriptedPrompt.hesitate() }
        try await Rig.with(prompt) { rig in
            let (packets, sink) = AsyncStream.makeStream(of: [UInt8].self)
            let device = PasskeyHIDDevice(rig.authenticator, clock: rig.clock.clock) {
                sink.yield($0)
            }
            func send(_ channel: [UInt8], _ rest: [UInt8]) async {
                await device.receive(
                    channel + rest + [UInt8](repeating: 0, count: 64 - 4 - rest.count))
            }
            /// The next packet that is not a KEEPALIVE.
            func answer() async throws -> [UInt8] {
                for await packet in packets where packet[4] != 0xBB { return packet }
                throw CancellationError()
            }
            await send([255, 255, 255, 255], [0x86, 0, 8] + [UInt8](repeating: 1, count: 8))
            let channel = Array(try await answer()[15..<19])
            await send(channel, [0x90, 0, 1, 0x0B])
            #expect(await poll { rig.prompt.open == 1 })
            await device.cancelRequest()
            #expect(try await answer()[4..<8] == [0x90, 0, 1, 0x2D])
            #expect(rig.prompt.open == 0)
            await send(channel, [0x90, 0, 1, 0x07])
            #expect(try await answer()[4..<8] == [0x90, 0, 1, 0x30])
            rig.clock.advance(by: PromptLimit.pauseTime)
            await send(channel, [0x90, 0, 1, 0x0B])
            #expect(await poll { rig.prompt.open == 1 })
            // The program dies.
            await device.disconnect()
            #expect(await poll { rig.prompt.open == 0 })
            await send([255, 255, 255, 255], [0x86, 0, 8] + [UInt8](repeating: 2, count: 8))
            let next = Array(try await answer()[15..<19])
            await send(next, [0x90, 0, 1, 0x07])
            #expect(try await answer()[4..<8] == [0x90, 0, 1, 0x30], "the device is not busy")
            await device.close()
        }
    }

    @Test(arguments: [1, 2])
    func `PRF outputs are the same at each login, with one PIN, in both protocols`(
        version: Int
    ) async throws {
        try await Rig.with { rig in
            _ = try await rig.ask(
                Rig.registration(changes: [6: .map(["hmac-secret": .boolean(true)])]))
            let client = try PRFClient(
                agreement: try await rig.ask([6, 0xA2, 1, 2, 2, 2])[1], version: version)
            let salts = [[UInt8](repeating: 1, count: 32), [UInt8](repeating: 2, count: 32)]
            var outputs: [[UInt8]] = []
            for _ in 0..<2 {
                let pins = rig.prompt.pins.count
                let answer = try await rig.ask(
                    Rig.assertion(changes: [4: .map(["hmac-secret": try client.request(salts)])]))
                #expect(rig.prompt.pins.count == pins + 1)
                let data = try #require(answer[2]?.bytes)
                let key = try #require(try rig.store.list().first).key.publicKey
                #expect(data[32] == 0x85)
                #expect(try Rig.isValid(try #require(answer[3]?.bytes), key, data))
                let encrypted = try #require(
                    try CBORReader.read(data[37...], limits: .ctap).map?["hmac-secret"]?.bytes)
                outputs.append(try client.decrypt(encrypted))
            }
            #expect(outputs[0] == outputs[1] && outputs[0].count == 64)
            #expect(outputs[0].prefix(32) != outputs[0].suffix(32))
            let one = try await rig.ask(
                Rig.assertion(changes: [4: .map(["hmac-secret": try client.request([salts[1]])])]))
            let oneData = try #require(one[2]?.bytes)
            let encrypted = try #require(
                try CBORReader.read(oneData[37...], limits: .ctap).map?["hmac-secret"]?.bytes)
            #expect(try client.decrypt(encrypted) == Array(outputs[0].suffix(32)))
            for stated in 1...3 {
                let request = try client.request(salts, stating: stated)
                #expect(
                    await rig.status(
                        Rig.assertion(changes: [4: .map(["hmac-secret": request])]))
                        == (stated == version ? 0 : 0x02))
            }
            let questions = rig.prompt.questions.count
            let forged = try client.request(salts, damaged: true)
            #expect(
                await rig.status(Rig.assertion(changes: [4: .map(["hmac-secret": forged])])) == 0x33
            )
            #expect(rig.prompt.questions.count == questions)
        }
    }
}
