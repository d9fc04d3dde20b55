import Latchkey
import LatchkeyTestSupport
import Testing

@testable import LatchkeyPasskeys

/// CTAPHID without an engine.
@Suite struct FramingTests {
    private var device = CTAPHIDDevice(newChannel: { .random(in: 1..<0xFFFF_FFFF) })

    private static func packets(_ actions: [CTAPHIDDevice.Action]) -> [[UInt8]] {
        actions.compactMap { if case .send(let packet) = $0 { packet } else { nil } }
    }

    private static func error(_ error: CTAPHIDError, on channel: UInt32) -> [CTAPHIDDevice.Action] {
        CTAPHIDPacket.packets(of: [error.rawValue], command: CTAPHIDCommand.error, on: channel).map
        { .send($0) }
    }

    private mutating func open() throws -> UInt32 {
        let nonce: [UInt8] = [1, 2, 3, 4, 5, 6, 7, 8]
        let packets = CTAPHIDPacket.packets(
            of: nonce, command: CTAPHIDCommand.initialize, on: 0xFFFF_FFFF)
        let answer = try #require(Self.packets(device.receive(packets[0], at: .zero)).first)
        #expect(answer.count == 64)
        #expect(Array(answer[4..<7]) == [0x86, 0, 17])
        #expect(Array(answer[7..<15]) == nonce)
        #expect(Array(answer[19..<24]) == [2, 1, 0, 0, 0x0D], "WINK, CBOR, no messages of U2F")
        return answer[15..<19].reduce(0) { $0 << 8 | UInt32($1) }
    }

    private mutating func send(
        _ message: [UInt8], _ command: UInt8, _ channel: UInt32, at now: Duration = .zero
    ) -> [CTAPHIDDevice.Action] {
        CTAPHIDPacket.packets(of: message, command: command, on: channel).flatMap {
            device.receive($0, at: now)
        }
    }

    @Test mutating func `a ping of each length up to the limit returns unchanged`() throws {
        let channel = try open()
        for count in Array(0...200) + [1827, 1900, CTAPHIDDevice.maximumAnswerBytes] {
            let message = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
            let answer = Self.packets(send(message, CTAPHIDCommand.ping, channel))
            #expect(
                answer
                    == CTAPHIDPacket.packets(of: message, command: CTAPHIDCommand.ping, on: channel)
            )
        }
        let long = [UInt8](repeating: 0, count: CTAPHIDDevice.maximumAnswerBytes + 1)
        #expect(send(long, CTAPHIDCommand.ping, channel) == Self.error(.invalidLength, on: channel))
    }

    @Test
    mutating func
        `a wrong sequence number, and a packet that starts another message, end the message`()
        throws
    {
        let channel = try open()
        let packets = CTAPHIDPacket.packets(
            of: [UInt8](repeating: 7, count: 200), command: CTAPHIDCommand.cbor, on: channel)
        #expect(
            device.receive(packets[1], at: .zero) == [], "an unexpected continuation is ignored")
        #expect(device.receive(packets[0], at: .zero) == [])
        #expect(device.receive(packets[2], at: .zero) == Self.error(.invalidSequence, on: channel))
        #expect(device.receive(packets[0], at: .zero) == [])
        #expect(device.receive(packets[0], at: .zero) == Self.error(.invalidSequence, on: channel))
    }

    @Test mutating func `a message that stops halfway times out after 500 ms`() throws {
        let channel = try open()
        let packets = CTAPHIDPacket.packets(
            of: [UInt8](repeating: 7, count: 200), command: CTAPHIDCommand.cbor, on: channel)
        _ = device.receive(packets[0], at: .zero)
        #expect(device.tick(at: .milliseconds(499)) == [])
        #expect(device.deadline == .milliseconds(500))
        #expect(device.tick(at: .milliseconds(500)) == Self.error(.messageTimeout, on: channel))
        #expect(device.deadline == nil)
    }

    @Test mutating func `unknown channels, commands and lengths have their errors`() throws {
        let channel = try open()
        #expect(send([1], CTAPHIDCommand.ping, 0) == Self.error(.invalidChannel, on: 0))
        #expect(
            send([1], CTAPHIDCommand.ping, channel ^ 1)
                == Self.error(.invalidChannel, on: channel ^ 1))
        #expect(send([1], 0x03, channel) == Self.error(.invalidCommand, on: channel))
        #expect(send([1], 0x04, channel) == Self.error(.invalidCommand, on: channel))
        #expect(send([], CTAPHIDCommand.cbor, channel) == Self.error(.invalidLength, on: channel))
        #expect(
            send([1], CTAPHIDCommand.initialize, channel) == Self.error(.invalidLength, on: channel)
        )
        let long = [UInt8](repeating: 0, count: CTAPHIDDevice.maximumRequestBytes + 1)
        let first = CTAPHIDPacket.packets(of: long, command: CTAPHIDCommand.cbor, on: channel)[0]
        #expect(device.receive(first, at: .zero) == Self.error(.invalidLength, on: channel))
        #expect(device.receive([1, 2, 3], at: .zero) == [])
    }

    @Test mutating func `one transaction runs, and CANCEL and INIT of its channel end it`() throws {
        let (channel, other) = (try open(), try open())
        #expect(send([4], CTAPHIDCommand.cbor, channel) == [.perform(transaction: 1, request: [4])])
        #expect(send([4], CTAPHIDCommand.cbor, other) == Self.error(.channelBusy, on: other))
        #expect(send([1], CTAPHIDCommand.ping, other) == Self.error(.channelBusy, on: other))
        #expect(send([], CTAPHIDCommand.cancel, other) == [])
        #expect(send([], CTAPHIDCommand.cancel, channel) == [.cancel(transaction: 1)])
        #expect(device.finish(1, with: [0x2D]).count == 1)
        #expect(send([4], CTAPHIDCommand.cbor, other) == [.perform(transaction: 2, request: [4])])
        let again = send([1, 2, 3, 4, 5, 6, 7, 8], CTAPHIDCommand.initialize, other)
        #expect(again.first == .cancel(transaction: 2))
        #expect(again.count == 2)
        #expect(device.finish(2, with: [0]) == [], "the client has aborted it")
        #expect(send([4], CTAPHIDCommand.cbor, channel) == [.perform(transaction: 3, request: [4])])
    }

    @Test mutating func `a packet on the channel of a running request ends the request`() throws {
        let (channel, other) = (try open(), try open())
        let long = CTAPHIDPacket.packets(
            of: [UInt8](repeating: 7, count: 100), command: CTAPHIDCommand.cbor, on: channel)
        let packets = [
            (
                CTAPHIDPacket.packets(of: [2], command: CTAPHIDCommand.cbor, on: channel)[0],
                CTAPHIDError.channelBusy
            ),
            (
                CTAPHIDPacket.packets(of: [1], command: CTAPHIDCommand.ping, on: channel)[0],
                .channelBusy
            ),
            (CTAPHIDPacket.packets(of: [], command: 0x3B, on: channel)[0], .channelBusy),
            (long[0], .channelBusy), (long[1], .invalidSequence),
        ]
        for (number, (packet, error)) in zip(UInt64(1)..., packets) {
            #expect(
                send([1], CTAPHIDCommand.cbor, channel)
                    == [.perform(transaction: number, request: [1])])
            #expect(
                device.receive(packet, at: .zero)
                    == [.cancel(transaction: number)] + Self.error(error, on: channel))
            #expect(device.finish(number, with: [0]) == [], "its answer goes to nobody")
        }
        _ = send([1], CTAPHIDCommand.cbor, channel)
        for packet in CTAPHIDPacket.packets(
            of: [UInt8](repeating: 7, count: 100), command: CTAPHIDCommand.keepalive, on: other)
        {
            #expect(
                device.receive(packet, at: .zero).allSatisfy { $0 != .cancel(transaction: 6) },
                "the packets of another channel do not end it")
        }
        #expect(device.finish(6, with: [0]).count == 1)
    }

    @Test mutating func `a message that two programs wrote has no window`() throws {
        let channel = try open()
        func packets(_ byte: UInt8) -> [[UInt8]] {
            CTAPHIDPacket.packets(
                of: [UInt8](repeating: byte, count: 100), command: CTAPHIDCommand.cbor, on: channel)
        }
        #expect(device.receive(packets(1)[0], at: .zero) == [])
        guard case .perform(1, let mixed)? = device.receive(packets(2)[1], at: .zero).first else {
            Issue.record("the message is complete")
            return
        }
        #expect(Set(mixed) == [1, 2])
        #expect(
            device.receive(packets(1)[1], at: .zero)
                == [.cancel(transaction: 1)] + Self.error(.invalidSequence, on: channel))
    }

    @Test mutating func `a held request gives way to the message of another channel`() throws {
        let (channel, other) = (try open(), try open())
        let timeOut = CTAPHIDPacket.packets(of: [0x2F], command: CTAPHIDCommand.cbor, on: channel)
            .map { CTAPHIDDevice.Action.send($0) }
        func hold(_ number: UInt64) {
            #expect(
                send([2], CTAPHIDCommand.cbor, channel)
                    == [.perform(transaction: number, request: [2])])
            device.hold(number)
        }
        hold(1)
        #expect(
            send([4], CTAPHIDCommand.cbor, other)
                == [.cancel(transaction: 1)] + timeOut + [.perform(transaction: 2, request: [4])])
        #expect(device.finish(1, with: [0x2D]) == [])
        #expect(device.finish(2, with: [0]).count == 1)
        hold(3)
        #expect(send([1], 0x03, other) == Self.error(.invalidCommand, on: other))
        let long = CTAPHIDPacket.packets(
            of: [UInt8](repeating: 7, count: 100), command: CTAPHIDCommand.cbor, on: other)
        #expect(device.receive(long[0], at: .zero) == [.cancel(transaction: 3)] + timeOut)
        #expect(
            send([2], CTAPHIDCommand.cbor, channel) == Self.error(.channelBusy, on: channel),
            "it cannot come back before the message is complete")
        #expect(
            device.receive(long[1], at: .zero)
                == [.perform(transaction: 4, request: [UInt8](repeating: 7, count: 100))])
        #expect(send([2], CTAPHIDCommand.cbor, channel) == Self.error(.channelBusy, on: channel))
    }

    @Test mutating func `the end of all programs ends the request and the channels`() throws {
        let channel = try open()
        #expect(device.disconnect() == [])
        #expect(send([4], CTAPHIDCommand.cbor, channel) == Self.error(.invalidChannel, on: channel))
        let next = try open()
        #expect(send([4], CTAPHIDCommand.cbor, next) == [.perform(transaction: 1, request: [4])])
        #expect(device.disconnect() == [.cancel(transaction: 1)])
        #expect(device.finish(1, with: [0x2D]) == [] && device.deadline == nil)
    }

    @Test mutating func `KEEPALIVE comes each 100 ms, and at each change`() throws {
        let channel = try open()
        _ = send([4], CTAPHIDCommand.cbor, channel)
        func keepalive(_ status: UInt8) -> [CTAPHIDDevice.Action] {
            CTAPHIDPacket.packets(of: [status], command: CTAPHIDCommand.keepalive, on: channel).map
            { .send($0) }
        }
        #expect(device.tick(at: .milliseconds(99)) == [])
        #expect(device.tick(at: .milliseconds(100)) == keepalive(1))
        #expect(device.report(.userPresenceNeeded, of: 1, at: .milliseconds(130)) == keepalive(2))
        #expect(device.report(.userPresenceNeeded, of: 1, at: .milliseconds(140)) == [])
        #expect(device.deadline == .milliseconds(230))
        #expect(device.tick(at: .milliseconds(230)) == keepalive(2))
    }

    @Test mutating func `random packets never run two transactions and never send another length`()
        throws
    {
        var generator = SplitMix(seed: 21)
        let channels = [try open(), try open(), 0, 0xFFFF_FFFF, 77]
        let commands: [UInt8] = [1, 3, 4, 6, 8, 0x10, 0x11, 0x3B, 0x3F]
        var running: UInt64?
        var now = Duration.zero
        for _ in 0..<10_000 {
            now += .milliseconds(Int.random(in: 0...200, using: &generator))
            let channel = channels.randomElement(using: &generator) ?? 0
            var packet = (0..<4).map { UInt8(truncatingIfNeeded: channel >> (8 * (3 - $0))) }
            let command = commands.randomElement(using: &generator) ?? 1
            let isFirst = Bool.random(using: &generator)
            packet.append(isFirst ? command | 0x80 : UInt8.random(in: 0...3, using: &generator))
            packet += [0, UInt8.random(in: 0...200, using: &generator)]
            for _ in 0..<57 { packet.append(.random(in: 0...255, using: &generator)) }
            for action in device.receive(packet, at: now) + device.tick(at: now) {
                switch action {
                case .send(let packet): #expect(packet.count == 64)
                case .perform(let transaction, let request):
                    #expect(running == nil)
                    #expect((1...200).contains(request.count))
                    running = transaction
                case .cancel(let transaction):
                    #expect(transaction == running)
                    _ = device.finish(transaction, with: [0x2D])
                    running = nil
                case .wink: break
                }
            }
            if let transaction = running, Int.random(in: 0..<4, using: &generator) == 0 {
                _ = device.finish(transaction, with: [0])
                running = nil
            }
        }
    }
}
