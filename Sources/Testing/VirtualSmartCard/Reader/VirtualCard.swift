internal import Dispatch
internal import Glibc
internal import Synchronization

/// A virtual YubiKey or other card in a virtual reader, connected to vsmartcard's driver `vpcd`.
///
/// The card is in the reader from its creation until it is ejected or the last reference is
/// released. It waits for a reader that does not exist yet. The card has its own threads; no member
/// blocks.
public final class VirtualCard: Sendable {
    /// The card's model and serial number.
    public let profile: CardProfile
    private let core: CardCore

    /// Creates a card and inserts it.
    ///
    /// - Parameters:
    ///   - port: The port on 127.0.0.1 where the driver listens for the reader's slot.
    ///   - touchTimeout: How long a key waits for a touch; by default 15 seconds on a YubiKey and
    ///     30 seconds on other cards.
    package init(_ applet: any CardApplet, port: UInt16, touchTimeout: Duration? = nil) {
        profile = applet.profile
        core = CardCore(
            applet, port: port, touchTimeout: touchTimeout ?? applet.profile.model.touchTimeout)
        DispatchQueue(label: "latchkey.card.\(port)").async { [core] in core.run() }
    }

    deinit {
        core.remove(permanently: true)
    }

    /// The reaction to a key that requires a touch.
    public var touch: TouchMode {
        get { core.sensor.mode }
        set { core.sensor.mode = newValue }
    }

    /// Whether a key is waiting for a touch.
    public var isWaitingForTouch: Bool { core.sensor.isWaiting }

    /// Touches the card. Does nothing if no key is waiting.
    ///
    /// - Returns: Whether a key was waiting.
    @discardableResult
    public func press() -> Bool { core.sensor.press() }

    /// Whether the card is in the reader.
    public var isInserted: Bool { core.state.withLock { $0.isInserted } }

    /// Removes the card from the reader. The reader notices it within 0.4 seconds.
    public func eject() {
        core.remove(permanently: false)
    }

    /// Inserts the card into the reader again, with the same keys. The reader notices it within 0.4
    /// seconds.
    public func insert() {
        let wasOut = core.state.withLock { state in
            defer { state.isInserted = true }
            return !state.isInserted && !state.isStopped
        }
        if wasOut { core.insertion.signal() }
    }

    /// Makes the next use of the key in `slot` fail with `status`. Cards without PIV have no slots.
    package func failNextUse(of slot: KeySlot, with status: StatusWord) {
        core.withPIV { $0.failNextUse(of: slot, with: status) }
    }

    /// Injects a fault. Each fault counts the commands after its injection separately.
    package func inject(_ fault: CardFault) {
        core.state.withLock { $0.faults.append(fault) }
    }

    /// Removes the injected faults that have not happened yet.
    package func removeFaults() {
        core.state.withLock { $0.faults = [] }
    }

    /// The time that the card takes for each command. A card behind a slow reader takes 30 ms.
    package var commandDelay: Duration {
        get { core.state.withLock { $0.commandDelay } }
        set { core.state.withLock { $0.commandDelay = newValue } }
    }

    /// The elliptic-curve public keys by slot: 04 and both coordinates.
    package var publicPoints: [KeySlot: [UInt8]] { core.withPIV(\.publicPoints) ?? [:] }

    /// Removes all keys and data objects except those of a new card.
    package func removeKeys() {
        core.withPIV { $0.removeKeys() }
    }

    /// The commands and power cycles so far.
    package var statistics: CardStatistics { core.state.withLock { $0.statistics } }
}

/// The state and the thread of a card. The thread does not hold the card itself, so that its owner
/// can release it.
private final class CardCore: Sendable {
    struct State {
        var applet: any CardApplet
        var faults: [CardFault] = []
        var commandDelay = Duration.zero
        var statistics = CardStatistics()
        var isInserted = true
        var isStopped = false
        var connection: StreamSocket?
    }

    let state: Mutex<State>
    let sensor = TouchSensor()
    let insertion = DispatchSemaphore(value: 0)
    private let port: UInt16
    private let touchTimeout: Duration

    init(_ applet: any CardApplet, port: UInt16, touchTimeout: Duration) {
        state = Mutex(State(applet: applet))
        self.port = port
        self.touchTimeout = touchTimeout
    }

    /// Uses the PIV application.
    ///
    /// - Returns: nil if the card has none.
    @discardableResult
    func withPIV<R: Sendable>(_ body: (inout PIVApplet) -> R) -> R? {
        state.withLock { state in
            guard var applet = state.applet as? PIVApplet else { return nil }
            defer { state.applet = applet }
            return body(&applet)
        }
    }

    func remove(permanently isFinal: Bool) {
        let connection = state.withLock { state in
            let wasIn = state.isInserted
            state.isInserted = false
            state.isStopped = state.isStopped || isFinal
            defer { state.connection = nil }
            if isFinal, !wasIn { insertion.signal() }
            return state.connection
        }
        connection?.shutDown()
        sensor.cancel()
    }

    /// Connects to the reader and answers its messages until the card is removed for good.
    func run() {
        while true {
            let (isInserted, isStopped) = state.withLock { ($0.isInserted, $0.isStopped) }
            if isStopped { return }
            guard isInserted else {
                insertion.wait()
                continue
            }
            guard let connection = StreamSocket(port: port) else {
                // The reader does not exist yet. There is no notification, so poll.
                usleep(2000)
                continue
            }
            let isConnected = state.withLock { state in
                guard state.isInserted else { return false }
                state.applet.powerCycle()
                state.connection = connection
                return true
            }
            if isConnected { serve(connection) }
            state.withLock { state in
                if state.connection === connection { state.connection = nil }
            }
        }
    }

    private func serve(_ connection: StreamSocket) {
        while let message = ReaderMessage.receive(from: connection) {
            let response: [UInt8]
            switch message {
            case .powerChange:
                state.withLock { state in
                    state.statistics.powerCycles += 1
                    state.applet.powerCycle()
                }
                continue
            case .answerToReset: response = state.withLock { $0.applet.profile.model.answerToReset }
            case .command(let command):
                guard let answer = answer(to: command, on: connection) else {
                    return remove(permanently: false)
                }
                response = answer
            }
            guard connection.send(ReaderMessage.framed(response)) else { return }
        }
    }

    /// - Returns: nil if a fault removes the card at this command.
    private func answer(to command: [UInt8], on connection: StreamSocket) -> [UInt8]? {
        let (delay, effect) = state.withLock { state in
            state.statistics.count(command)
            return (state.commandDelay, CardFault.due(at: command, in: &state.faults))
        }
        if delay > .zero { usleep(UInt32(min(delay / .microseconds(1), 60e6))) }
        switch effect {
        case .removal: return nil
        case .status(let status): return status.bytes
        case nil: break
        }
        switch state.withLock({ $0.applet.respond(to: command) }) {
        case .response(let bytes): return bytes
        case .touchRequired:
            let isTouched = sensor.waitForTouch(timeout: touchTimeout) {
                state.withLock { $0.connection === connection }
            }
            return state.withLock { $0.applet.finish(touched: isTouched) }
        }
    }
}

/// Counters of a card since its creation.
package struct CardStatistics: Hashable, Sendable {
    /// The number of power changes and resets.
    package internal(set) var powerCycles = 0
    /// The number of received commands.
    package internal(set) var commands = 0
    /// The number of commands by instruction, in two hexadecimal digits.
    package internal(set) var instructions: [String: Int] = [:]

    mutating func count(_ command: [UInt8]) {
        commands += 1
        guard command.count > 1 else { return }
        let digits = String(command[1], radix: 16)
        instructions[digits.count == 1 ? "0\(digits)" : digits, default: 0] += 1
    }
}

/// A message of the driver `vpcd` to a card: a length of two bytes, high byte first, and that many
/// bytes (vsmartcard's documentation, "Virtual Smart Card", protocol between vpcd and vpicc).
enum ReaderMessage: Hashable {
    /// Power off (0), power on (1) or reset (2). No answer is expected.
    case powerChange
    /// Requests the answer to reset (4).
    case answerToReset
    case command([UInt8])

    /// Waits for the next message.
    ///
    /// - Returns: nil if the connection has ended or the message is unknown.
    static func receive(from connection: StreamSocket) -> ReaderMessage? {
        guard
            let header = connection.receiveAcknowledging(2),
            let body = connection.receiveAcknowledging(Int(header[0]) << 8 | Int(header[1]))
        else { return nil }
        guard body.count == 1 else { return body.isEmpty ? nil : .command(body) }
        switch body[0] {
        case 0, 1, 2: return .powerChange
        case 4: return .answerToReset
        default: return nil
        }
    }

    /// A message with its length.
    ///
    /// - Parameter bytes: At most 65535; longer responses are cut and lose their status word.
    static func framed(_ bytes: [UInt8]) -> [UInt8] {
        let body = bytes.prefix(0xFFFF)
        return [UInt8(body.count >> 8), UInt8(body.count & 0xFF)] + body
    }
}
