internal import Latchkey

/// A CTAPHID device: packets of 64 bytes in and out, requests to an ``Authenticator``.
///
/// KEEPALIVE comes from a timer, not from the task that uses the hardware.
package actor PasskeyHIDDevice {
    /// The maximum number of packets that wait until they are sent: those of seven of the longest
    /// messages. A program that sends requests and reads no answers loses the further ones.
    private static let maximumQueued = 1024

    private let authenticator: Authenticator
    private let clock: PasskeyClock
    private let send: @Sendable ([UInt8]) async -> Void
    private var device: CTAPHIDDevice
    private var work: Task<Void, Never>?
    private var timer: Task<Void, Never>?

    /// - Parameter send: Sends one packet to the client. Called in order.
    package init(
        _ authenticator: Authenticator, clock: PasskeyClock = .continuous,
        device: CTAPHIDDevice = CTAPHIDDevice(),
        send: @escaping @Sendable ([UInt8]) async -> Void
    ) {
        self.authenticator = authenticator
        self.clock = clock
        self.device = device
        self.send = send
        (packets, outbox) = AsyncStream.makeStream(
            of: [UInt8].self, bufferingPolicy: .bufferingOldest(Self.maximumQueued))
    }

    private let packets: AsyncStream<[UInt8]>
    private let outbox: AsyncStream<[UInt8]>.Continuation
    private var sender: Task<Void, Never>?

    /// Receives a packet. Bytes that are not a packet are ignored. Returns without waiting for the
    /// answer.
    package func receive(_ packet: [UInt8]) {
        perform(device.receive(packet, at: clock.now()))
    }

    /// Ends the running request early, as CANCEL does: its prompt closes. Later requests are
    /// answered.
    package func cancelRequest() { work?.cancel() }

    /// Ends the running request after the last program has closed the device. A program that died
    /// has sent no CANCEL.
    package func disconnect() async {
        if let work, !work.isCancelled { await authenticator.disconnect() }
        perform(device.disconnect())
    }

    /// Ends the running request, and waits for the end. Call it when the client's side of the
    /// device is closed.
    package func close() async {
        work?.cancel()
        await work?.value
        timer?.cancel()
        outbox.finish()
        await sender?.value
    }

    private func perform(_ actions: [CTAPHIDDevice.Action]) {
        for action in actions {
            switch action {
            case .send(let packet): enqueue(packet)
            case .perform(let transaction, let request): start(transaction, request)
            case .cancel: work?.cancel()
            case .wink: Task { await authenticator.effects.wink() }
            }
        }
        schedule()
    }

    /// Packets are sent in order, and sending does not delay the reception of CANCEL.
    private func enqueue(_ packet: [UInt8]) {
        if sender == nil {
            let (packets, send) = (packets, send)
            sender = Task { for await packet in packets { await send(packet) } }
        }
        outbox.yield(packet)
    }

    private func start(_ transaction: UInt64, _ request: [UInt8]) {
        // An aborted request may still release its hardware.
        let earlier = work
        work = Task {
            await earlier?.value
            let answer = await authenticator.respond(to: request) { status in
                await self.report(status, transaction)
            } holding: {
                await self.hold(transaction)
            }
            self.finish(transaction, answer)
        }
    }

    private func report(_ status: KeepaliveStatus, _ transaction: UInt64) {
        perform(device.report(status, of: transaction, at: clock.now()))
    }

    private func hold(_ transaction: UInt64) { device.hold(transaction) }

    private func finish(_ transaction: UInt64, _ answer: [UInt8]) {
        perform(device.finish(transaction, with: answer))
    }

    private func tick() {
        timer = nil
        perform(device.tick(at: clock.now()))
    }

    /// Runs the timer while the device waits for a time. A deadline that comes closer starts it
    /// again.
    private func schedule() {
        timer?.cancel()
        guard let deadline = device.deadline else {
            timer = nil
            return
        }
        timer = Task {
            do { try await clock.sleep(deadline) } catch { return }
            self.tick()
        }
    }
}
