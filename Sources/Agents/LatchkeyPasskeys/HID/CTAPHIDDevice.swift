internal import Latchkey

/// The framing of CTAPHID: packets in, packets and requests out. A state machine; the caller passes
/// the time and performs the actions in order.
///
/// One transaction runs at a time. While a message of one channel is received or its request runs,
/// another channel gets `CHANNEL_BUSY`; a request that is only held gives way to it instead.
///
/// Every process that has opened the device reads all packets and can send on each channel. A
/// client sends nothing but CANCEL and INIT while its request runs. Any other packet on its channel
/// shows that two programs use it, and that the request may contain packets of both: the request
/// ends.
package struct CTAPHIDDevice: Sendable {
    /// An effect that the caller performs.
    package enum Action: Hashable, Sendable {
        /// Send this packet of 64 bytes.
        case send([UInt8])
        /// Answer this CTAP request: call ``finish(_:with:)`` with its number.
        case perform(transaction: UInt64, request: [UInt8])
        /// End the running request early. Its answer is still expected, unless ``finish(_:with:)``
        /// ignores it.
        case cancel(transaction: UInt64)
        /// Attract the user's attention.
        case wink
    }

    /// The maximum length of a request: the kernel buffers 31 packets and drops further ones
    /// silently.
    package static let maximumRequestBytes = 1200
    /// The maximum length of an answer: the kernel buffers 64 packets for each client.
    package static let maximumAnswerBytes =
        CTAPHIDPacket.initialBytes + 62 * CTAPHIDPacket.continuationBytes
    /// The time after which an incomplete message is discarded.
    static let messageTimeout: Duration = .milliseconds(500)
    /// The interval of KEEPALIVE.
    static let keepaliveInterval: Duration = .milliseconds(100)
    /// The maximum number of channels. The oldest one is closed for a new one.
    static let maximumChannels = 64

    private static let broadcast: UInt32 = 0xFFFF_FFFF
    private static let protocolVersion: UInt8 = 2
    /// WINK, CBOR, and no U2F messages.
    private static let capabilities: UInt8 = 0x01 | 0x04 | 0x08

    private struct Assembly {
        let channel: UInt32
        let command: UInt8
        let count: Int
        var data: [UInt8]
        var sequence: UInt8 = 0
        var deadline: Duration
    }

    private struct Running {
        let transaction: UInt64
        let channel: UInt32
        var status = KeepaliveStatus.processing
        var isHeld = false
        var nextKeepalive: Duration
    }

    private let version: (major: UInt8, minor: UInt8, build: UInt8)
    private let newChannel: @Sendable () -> UInt32
    private var channels: [UInt32] = []
    private var assembly: Assembly?
    private var running: Running?
    private var lastTransaction: UInt64 = 0

    /// - Parameter newChannel: Returns a random number for a channel.
    package init(
        version: (major: UInt8, minor: UInt8, build: UInt8) = (1, 0, 0),
        newChannel: @escaping @Sendable () -> UInt32 = { .random(in: .min ... .max) }
    ) {
        self.version = version
        self.newChannel = newChannel
    }

    /// The time at which ``tick(at:)`` has something to do; nil if nothing waits.
    package var deadline: Duration? {
        [assembly?.deadline, running?.nextKeepalive].compactMap(\.self).min()
    }

    /// Receives a packet. Bytes that are not a packet are ignored.
    package mutating func receive(_ bytes: [UInt8], at now: Duration) -> [Action] {
        let late = expire(at: now)
        switch CTAPHIDPacket(bytes) {
        case nil: return late
        case .initial(let channel, let command, let count, let data)?:
            return late + begin(command, count: count, data, on: channel, at: now)
        case .continuation(let channel, let sequence, let data)?:
            return late + `continue`(sequence: sequence, data, on: channel, at: now)
        }
    }

    /// Sends what is due: KEEPALIVE, or the error for a message that stopped halfway.
    package mutating func tick(at now: Duration) -> [Action] {
        expire(at: now) + keepalive(at: now)
    }

    /// Reports what the running request waits for. A change is sent at once.
    package mutating func report(
        _ status: KeepaliveStatus, of transaction: UInt64, at now: Duration
    ) -> [Action] {
        guard running?.transaction == transaction, running?.status != status else { return [] }
        running?.status = status
        running?.nextKeepalive = now
        return keepalive(at: now)
    }

    /// From now on the running request only stays silent. It ends as at its time limit when another
    /// channel sends a message.
    package mutating func hold(_ transaction: UInt64) {
        if running?.transaction == transaction { running?.isHeld = true }
    }

    /// Sends the answer to a request. An answer to a request that was aborted is dropped.
    package mutating func finish(_ transaction: UInt64, with answer: [UInt8]) -> [Action] {
        guard let running, running.transaction == transaction else { return [] }
        self.running = nil
        guard answer.count <= Self.maximumAnswerBytes else {
            return error(.other, on: running.channel)
        }
        return send(answer, CTAPHIDCommand.cbor, on: running.channel)
    }

    /// No program has the device open: ends the running request, without an answer, and closes all
    /// channels.
    package mutating func disconnect() -> [Action] {
        (channels, assembly) = ([], nil)
        guard let running else { return [] }
        self.running = nil
        return [.cancel(transaction: running.transaction)]
    }

    // MARK: Receiving

    private mutating func begin(
        _ command: UInt8, count: Int, _ data: ArraySlice<UInt8>, on channel: UInt32,
        at now: Duration
    ) -> [Action] {
        if command == CTAPHIDCommand.initialize {
            return initialize(channel, count: count, nonce: data)
        }
        guard channels.contains(channel) else { return error(.invalidChannel, on: channel) }
        if command == CTAPHIDCommand.cancel { return cancel(channel) }
        if let running {
            guard running.channel != channel else {
                return abort(channel) + error(.channelBusy, on: channel)
            }
            guard running.isHeld else { return error(.channelBusy, on: channel) }
        }
        if let assembly {
            guard assembly.channel == channel else { return error(.channelBusy, on: channel) }
            self.assembly = nil
            return error(.invalidSequence, on: channel)
        }
        guard [CTAPHIDCommand.ping, CTAPHIDCommand.wink, CTAPHIDCommand.cbor].contains(command)
        else {
            return error(.invalidCommand, on: channel)
        }
        guard count <= Self.maximumRequestBytes || command == CTAPHIDCommand.ping,
            count <= CTAPHIDPacket.maximumMessageBytes
        else { return error(.invalidLength, on: channel) }
        let ended = endHeld()
        let received = Array(data.prefix(count))
        guard received.count == count else {
            assembly = Assembly(
                channel: channel, command: command, count: count, data: received,
                deadline: now + Self.messageTimeout)
            return ended
        }
        return ended + complete(received, command, on: channel, at: now)
    }

    private mutating func `continue`(
        sequence: UInt8, _ data: ArraySlice<UInt8>, on channel: UInt32, at now: Duration
    ) -> [Action] {
        if running?.channel == channel {
            return abort(channel) + error(.invalidSequence, on: channel)
        }
        // Unexpected continuation packets are ignored.
        guard var assembly, assembly.channel == channel else { return [] }
        guard sequence == assembly.sequence else {
            self.assembly = nil
            return error(.invalidSequence, on: channel)
        }
        assembly.data += data.prefix(assembly.count - assembly.data.count)
        assembly.sequence += 1
        assembly.deadline = now + Self.messageTimeout
        guard assembly.data.count == assembly.count else {
            self.assembly = assembly
            return []
        }
        self.assembly = nil
        return complete(assembly.data, assembly.command, on: channel, at: now)
    }

    private mutating func complete(
        _ message: [UInt8], _ command: UInt8, on channel: UInt32, at now: Duration
    ) -> [Action] {
        switch command {
        case CTAPHIDCommand.ping:
            guard message.count <= Self.maximumAnswerBytes else {
                return error(.invalidLength, on: channel)
            }
            return send(message, command, on: channel)
        case CTAPHIDCommand.wink:
            guard message.isEmpty else { return error(.invalidLength, on: channel) }
            return [.wink] + send([], command, on: channel)
        default:
            guard !message.isEmpty else { return error(.invalidLength, on: channel) }
            lastTransaction += 1
            running = Running(
                transaction: lastTransaction, channel: channel,
                nextKeepalive: now + Self.keepaliveInterval)
            return [.perform(transaction: lastTransaction, request: message)]
        }
    }

    /// Answers INIT: on the broadcast channel with a new channel, on the client's own channel after
    /// aborting its transaction.
    private mutating func initialize(
        _ channel: UInt32, count: Int, nonce: ArraySlice<UInt8>
    ) -> [Action] {
        guard channel == Self.broadcast || channels.contains(channel) else {
            return error(.invalidChannel, on: channel)
        }
        guard count == 8 else { return error(.invalidLength, on: channel) }
        var actions: [Action] = []
        var granted = channel
        if channel == Self.broadcast {
            repeat {
                granted = newChannel()
            } while granted == 0 || granted == Self.broadcast || channels.contains(granted)
            channels.append(granted)
            actions += closeOldest()
        } else {
            actions += abort(channel)
        }
        let id = (0..<4).map { UInt8(truncatingIfNeeded: granted >> (8 * (3 - $0))) }
        let answer =
            Array(nonce.prefix(8)) + id
            + [
                Self.protocolVersion, version.major, version.minor, version.build,
                Self.capabilities,
            ]
        return actions + send(answer, CTAPHIDCommand.initialize, on: channel)
    }

    /// Closes a channel that has no transaction, if there are too many.
    private mutating func closeOldest() -> [Action] {
        guard channels.count > Self.maximumChannels,
            let index = channels.firstIndex(where: {
                $0 != running?.channel && $0 != assembly?.channel
            })
        else { return [] }
        channels.remove(at: index)
        return []
    }

    private mutating func abort(_ channel: UInt32) -> [Action] {
        if assembly?.channel == channel { assembly = nil }
        guard let running, running.channel == channel else { return [] }
        self.running = nil
        return [.cancel(transaction: running.transaction)]
    }

    /// Ends a held request with the answer that it gets at its time limit: browsers then continue
    /// with the user's other devices.
    private mutating func endHeld() -> [Action] {
        guard let running, running.isHeld else { return [] }
        self.running = nil
        return [.cancel(transaction: running.transaction)]
            + send(
                [CTAPStatus.userActionTimeout.rawValue], CTAPHIDCommand.cbor, on: running.channel)
    }

    /// CANCEL has no answer: the request that it ends has one. From another channel it is ignored.
    private mutating func cancel(_ channel: UInt32) -> [Action] {
        if assembly?.channel == channel { assembly = nil }
        guard let running, running.channel == channel else { return [] }
        return [.cancel(transaction: running.transaction)]
    }

    // MARK: Time

    private mutating func expire(at now: Duration) -> [Action] {
        guard let assembly, assembly.deadline <= now else { return [] }
        self.assembly = nil
        return error(.messageTimeout, on: assembly.channel)
    }

    private mutating func keepalive(at now: Duration) -> [Action] {
        guard let running, running.nextKeepalive <= now else { return [] }
        self.running?.nextKeepalive = now + Self.keepaliveInterval
        return send([running.status.rawValue], CTAPHIDCommand.keepalive, on: running.channel)
    }

    // MARK: Sending

    private func error(_ error: CTAPHIDError, on channel: UInt32) -> [Action] {
        send([error.rawValue], CTAPHIDCommand.error, on: channel)
    }

    private func send(_ message: [UInt8], _ command: UInt8, on channel: UInt32) -> [Action] {
        CTAPHIDPacket.packets(of: message, command: command, on: channel).map(Action.send)
    }
}
