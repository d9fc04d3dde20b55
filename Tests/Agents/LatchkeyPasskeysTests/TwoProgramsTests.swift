import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import Testing

@testable import LatchkeyPasskeys

/// Two programs with the same device. Each reads all packets, and can send on each channel.
@Suite(.softwareTPM) struct TwoProgramsTests {
    private static var hesitant: ScriptedPrompt {
        ScriptedPrompt { _ in await ScriptedPrompt.hesitate() }
    }

    @Test func `a program that ends another one's request does not get its consent`() async throws {
        try await Rig.with(Self.hesitant) { rig in
            // The browser is alone, and another program joins and leaves while the window is open.
            for (before, during, after) in [
                ([1], [1], [1, 2]), ([1], [1], [2]), ([1], [1], []), ([1, 2], [1, 2], [1]),
                ([1], [1, 2], [1]), ([1], [2], [2]),
            ] as [(Set<Int32>, Set<Int32>, Set<Int32>)] {
                for ending in Ending.allCases {
                    let text: Comment = "\(ending) \(before) \(during) \(after)"
                    rig.openers.set(before)
                    #expect(await rig.end(by: ending, during), text)
                    let count = rig.prompt.questions.count
                    rig.openers.set(after)
                    #expect(await rig.cancelled(Rig.registration()) == 0x27, text)
                    rig.clock.advance(by: .seconds(7))
                    #expect(await rig.cancelled(Rig.registration()) == 0x27, text)
                    #expect(rig.prompt.questions.count == count, text)
                    rig.clock.advance(by: QuietTimes<String>.longest)
                }
            }
        }
    }

    @Test func `a program that was alone all the time can ask again`() async throws {
        try await Rig.with(Self.hesitant) { rig in
            for ending in Ending.allCases {
                #expect(await rig.end(by: ending, [1]))
            }
            #expect(rig.prompt.questions.count == 2)
            rig.openers.set([2])
            #expect(await rig.cancelled(Rig.registration()) == 0x27)
            rig.clock.advance(by: PromptLimit.suspicionTime)
            #expect(await rig.end(by: .cancellation, [2]))
        }
    }

    @Test func `INIT and CANCEL on the channel of the browser give no window`() async throws {
        try await Rig.with(Self.hesitant) { rig in
            let wire = Wire(rig)
            rig.openers.set([1, 2])
            for end in [
                [0x86, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8], [0x91, 0, 0], [0x90, 0, 1, 4], [0],
            ]
                as [[UInt8]]
            {
                let (browser, attacker) = (try await wire.open(), try await wire.open())
                await wire.send(Rig.registration(), on: browser)
                #expect(await poll { rig.prompt.open == 1 }, "\(end)")
                await wire.packet(browser + end)
                #expect(await poll { rig.prompt.open == 0 }, "\(end)")
                let count = rig.prompt.questions.count
                let answer = try await wire.answer(to: Rig.registration(), on: attacker)
                #expect(answer[4..<8] == [0x90, 0, 1, 0x27], "\(end)")
                #expect(rig.prompt.questions.count == count)
                rig.clock.advance(by: QuietTimes<String>.longest)
            }
            await wire.device.close()
        }
    }

    @Test func `after the last program has closed the device, another one can ask at once`()
        async throws
    {
        try await Rig.with(Self.hesitant) { rig in
            let wire = Wire(rig)
            let first = try await wire.open()
            await wire.send(Rig.registration(), on: first)
            #expect(await poll { rig.prompt.open == 1 })
            await wire.device.disconnect()
            #expect(await poll { rig.prompt.open == 0 })
            rig.openers.set([2])
            let second = try await wire.open()
            await wire.send(Rig.registration(), on: second)
            await wire.passPause(rig)
            #expect(await poll { rig.prompt.open == 1 })
            // The attacker's INIT, and then all have closed the device.
            await wire.packet(second + [0x86, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8])
            await wire.device.disconnect()
            #expect(await poll { rig.prompt.open == 0 })
            rig.openers.set([3])
            let third = try await wire.open()
            await wire.send(Rig.registration(), on: third)
            #expect(try await wire.answer(on: third)[4..<8] == [0x90, 0, 1, 0x27])
            #expect(rig.prompt.questions.count == 2)
            await wire.device.close()
        }
    }

    @Test func `a held request of one program does not make the device busy for another`()
        async throws
    {
        try await Rig.with { rig in
            let wire = Wire(rig)
            let (page, other) = (try await wire.open(), try await wire.open())
            for _ in 1...3 {
                await wire.send(Rig.assertion(site: "evil.org"), on: page)
                try await wire.userIsNeeded(on: page)
                await wire.packet(other + [0x90, 0, 1, 0x07])
                #expect(try await wire.answer(on: page)[4..<8] == [0x90, 0, 1, 0x2F])
                #expect(try await wire.answer(on: other)[4..<8] == [0x90, 0, 1, 0x30])
            }
            await wire.device.close()
        }
    }
}

/// How a prompt ends without an answer of the user.
private enum Ending: CaseIterable {
    case cancellation, timeLimit
}

extension Rig {
    /// Begins a request, and ends it at its prompt.
    ///
    /// - Returns: Whether there was a prompt.
    fileprivate func end(by ending: Ending, _ during: Set<Int32>) async -> Bool {
        clock.advance(by: PromptLimit.pauseTime)
        let before = prompt.questions.count
        let task = Task { await authenticator.respond(to: Rig.registration()) }
        guard await poll(until: { prompt.questions.count > before }) else { return false }
        openers.set(during)
        switch ending {
        case .cancellation: task.cancel()
        case .timeLimit: clock.advance(by: .seconds(30))
        }
        let answer = await task.value
        return answer == [ending == .timeLimit ? 0x2F : 0x2D]
    }
}

/// A device, and the packets that its programs read.
private final class Wire: Sendable {
    let device: PasskeyHIDDevice
    private let packets: Packets

    init(_ rig: Rig) {
        let packets = Packets()
        self.packets = packets
        device = PasskeyHIDDevice(rig.authenticator, clock: rig.clock.clock) { packets.add($0) }
    }

    /// Opens a channel, and returns its four bytes.
    func open() async throws -> [UInt8] {
        await packet([255, 255, 255, 255, 0x86, 0, 8] + [UInt8](repeating: 1, count: 8))
        return Array(try await answer(on: [255, 255, 255, 255])[15..<19])
    }

    func packet(_ bytes: [UInt8]) async {
        await device.receive(bytes + [UInt8](repeating: 0, count: 64 - bytes.count))
    }

    /// Sends a CTAP request.
    func send(_ request: [UInt8], on channel: [UInt8]) async {
        let id = channel.reduce(0) { $0 << 8 | UInt32($1) }
        for packet in CTAPHIDPacket.packets(of: request, command: CTAPHIDCommand.cbor, on: id) {
            await device.receive(packet)
        }
    }

    /// Sends a CTAP request again while the device is busy with another one that ends, as programs
    /// do, and returns the first packet of its answer.
    func answer(to request: [UInt8], on channel: [UInt8]) async throws -> [UInt8] {
        let deadline = ContinuousClock.now + hangLimit
        while true {
            await send(request, on: channel)
            let packet = try await answer(on: channel)
            let isBusy = packet[4..<8] == [0xBF, 0, 1, 6]
            guard isBusy, ContinuousClock.now < deadline else { return packet }
            await Task.yield()
        }
    }

    /// Waits until a request waits because of the last prompt, and ends the wait.
    func passPause(_ rig: Rig) async {
        let end = rig.clock.clock.now() + PromptLimit.pauseTime
        #expect(await poll { rig.clock.sleepers.contains(end) })
        rig.clock.advance(by: PromptLimit.pauseTime)
    }

    /// Waits for the KEEPALIVE that says that the user is needed.
    func userIsNeeded(on channel: [UInt8]) async throws {
        _ = try await packets.next { $0.starts(with: channel + [0xBB, 0, 1, 2]) }
    }

    /// The next packet on a channel that is not a KEEPALIVE.
    func answer(on channel: [UInt8]) async throws -> [UInt8] {
        try await packets.next { $0.starts(with: channel) && $0[4] != 0xBB }
    }

    private final class Packets: Sendable {
        private let unread = Mutex<[[UInt8]]>([])

        func add(_ packet: [UInt8]) { unread.withLock { $0.append(packet) } }

        /// The next packet that fulfils a condition; earlier ones are skipped.
        func next(_ fulfils: ([UInt8]) -> Bool) async throws -> [UInt8] {
            var found: [UInt8]?
            await poll {
                unread.withLock { unread in
                    guard let index = unread.firstIndex(where: fulfils) else { return false }
                    found = unread[index]
                    unread.removeFirst(index + 1)
                    return true
                }
            }
            return try #require(found)
        }
    }
}
