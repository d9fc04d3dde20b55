internal import Dispatch
internal import Glibc
internal import Synchronization

/// A virtual YubiKey in a virtual reader: a ``PIVApplet`` behind a connection to vsmartcard's driver `vpcd`.
///
/// It is inserted when it is made, as soon as the reader is there, and until it is ejected or the last reference goes.
/// Its threads are its own; no member blocks.
public final class VirtualCard: Sendable {
    private struct State {
        var applet: PIVApplet
        var statistics = CardStatistics()
        var isInserted = true
        var isStopped = false
        var connection: StreamSocket?
    }

    /// Where the reader's driver listens, on 127.0.0.1.
    public let port: UInt16
    /// What it is like.
    public let profile: CardProfile
    private let touchTimeout: Duration
    private let sensor = TouchSensor()
    private let core: Core

    /// What the threads hold; not the card itself, so that it goes when its owner lets it go.
    private final class Core: Sendable {
        let state: Mutex<State>
        let insertion = DispatchSemaphore(value: 0)

        init(_ state: State) {
            self.state = Mutex(state)
        }
    }

    /// Makes a card and inserts it.
    ///
    /// - Parameters:
    ///   - port: The port of the reader's slot.
    ///   - touchTimeout: How long a key waits to be touched. A YubiKey waits about 15 seconds.
    public init(_ applet: PIVApplet, port: UInt16, touchTimeout: Duration = .seconds(15)) {
        self.port = port
        profile = applet.profile
        self.touchTimeout = touchTimeout
        core = Core(State(applet: applet))
        DispatchQueue(label: "latchkey.card.\(port)").async { [core, sensor] in
            Self.live(core, sensor, port: port, touchTimeout: touchTimeout)
        }
    }

    deinit {
        remove(forGood: true)
    }

    /// What happens when a key wants to be touched.
    public var touch: TouchMode {
        get { sensor.mode }
        set { sensor.mode = newValue }
    }

    /// Whether a key waits to be touched now.
    public var isWaitingForTouch: Bool { sensor.isWaiting }

    /// Touches the card. Does nothing when no key waits for it.
    ///
    /// - Returns: Whether one did.
    @discardableResult
    public func press() -> Bool { sensor.press() }

    /// Whether it is in the reader.
    public var isInserted: Bool { core.state.withLock { $0.isInserted } }

    /// Pulls the card out of the reader. The reader notices when it looks the next time, within 0.4 seconds.
    public func eject() {
        remove(forGood: false)
    }

    /// Puts the card back into the reader, with the same keys. The reader notices within 0.4 seconds.
    public func insert() {
        let wasOut = core.state.withLock { state in
            defer { state.isInserted = true }
            return !state.isInserted && !state.isStopped
        }
        if wasOut { core.insertion.signal() }
    }

    /// Makes the next use of the key in `slot` fail with `status`.
    public func failNextUse(of slot: KeySlot, with status: StatusWord) {
        core.state.withLock { $0.applet.failNextUse(of: slot, with: status) }
    }

    /// The keys' public points by slot: 04 and both coordinates.
    package var publicPoints: [KeySlot: [UInt8]] { core.state.withLock { $0.applet.publicPoints } }

    /// Removes all keys and data objects, but for the attestation key and its certificate.
    package func removeKeys() {
        core.state.withLock { $0.applet.removeKeys() }
    }

    /// What it has done so far.
    public var statistics: CardStatistics { core.state.withLock { $0.statistics } }

    private func remove(forGood: Bool) {
        let connection = core.state.withLock { state in
            let wasIn = state.isInserted
            state.isInserted = false
            state.isStopped = state.isStopped || forGood
            defer { state.connection = nil }
            if forGood, !wasIn { core.insertion.signal() }
            return state.connection
        }
        connection?.hangUp()
        sensor.giveUp()
    }

    // MARK: - The card's thread

    private static func live(_ core: Core, _ sensor: TouchSensor, port: UInt16, touchTimeout: Duration) {
        while true {
            let (isInserted, isStopped) = core.state.withLock { ($0.isInserted, $0.isStopped) }
            if isStopped { return }
            guard isInserted else {
                core.insertion.wait()
                continue
            }
            guard let connection = StreamSocket(port: port) else {
                // The reader is not there yet, and nothing tells when but trying.
                usleep(2000)
                continue
            }
            let isWanted = core.state.withLock { state in
                guard state.isInserted else { return false }
                state.applet.powerCycle()
                state.connection = connection
                return true
            }
            if isWanted { serve(connection, core, sensor, touchTimeout: touchTimeout) }
            core.state.withLock { state in
                if state.connection === connection { state.connection = nil }
            }
        }
    }

    private static func serve(
        _ connection: StreamSocket, _ core: Core, _ sensor: TouchSensor, touchTimeout: Duration
    ) {
        while let message = ReaderMessage.receive(from: connection) {
            let response: [UInt8]
            switch message {
            case .powerChange:
                core.state.withLock { state in
                    state.statistics.powerCycles += 1
                    state.applet.powerCycle()
                }
                continue
            case .answerToReset: response = CardProfile.answerToReset
            case .command(let command):
                let reply = core.state.withLock { state in
                    state.statistics.count(command)
                    return state.applet.respond(to: command)
                }
                switch reply {
                case .response(let bytes): response = bytes
                case .touchWanted:
                    let isTouched = sensor.waitForTouch(timeout: touchTimeout) {
                        core.state.withLock { $0.connection === connection }
                    }
                    response = core.state.withLock { $0.applet.finish(touched: isTouched) }
                }
            }
            guard connection.send(ReaderMessage.framed(response)) else { return }
        }
    }
}
