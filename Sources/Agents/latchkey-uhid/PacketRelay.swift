import Glibc
import LatchkeyPlatform

/// Relays packets between users' services and the devices of `/dev/uhid`, in one thread.
///
/// A process that has a descriptor of `/dev/uhid` can turn the device into a keyboard and type. So
/// the descriptors stay here, a service can send packets of 64 bytes and nothing else, and the
/// relay does not interpret them.
struct PacketRelay {
    /// A user's device. The connection and the device end together.
    struct Link {
        let user: UInt32
        /// The connection to the user's service, a socket that preserves message boundaries.
        let connection: Int32
        /// A descriptor of `/dev/uhid`.
        let device: Int32
        /// Whether packets were dropped, which is reported once.
        var hasDropped = false
    }

    enum Severity: Int {
        case warning = 4
        case info = 6
    }

    /// The maximum number of devices. Each needs two descriptors.
    static let maximumLinks = 64
    /// The message to the service when the last program has closed the device.
    static let closed: [UInt8] = [0]
    /// The number of packets that one step copies from a device before it serves the others.
    private static let batch = 64

    private let listener: Int32
    /// Returns the user at the other end of a connection, or nil.
    private let identify: (Int32) -> UInt32?
    /// Opens `/dev/uhid` without blocking, and returns a descriptor; a negative number on failure,
    /// with the reason in `errno`.
    private let openDevice: () -> Int32
    /// The clock of the limits.
    private let now: () -> ContinuousClock.Instant
    private let log: (Severity, String) -> Void
    /// A user's new devices: on average one in a second, and a few at once for restarts of the
    /// service. The kernel and udev process each device.
    private var devices = RateLimit<UInt32>(5, in: .seconds(5))
    /// The warnings about a user; nil stands for all users that are not known. The journal limits
    /// the lines of a service, so one user's lines could suppress those about others.
    private var warnings = RateLimit<UInt32?>(1, in: .seconds(10))
    private(set) var links: [Link] = []
    private let buffer = UnsafeMutableRawBufferPointer.allocate(
        byteCount: UHIDEvent.maximumBytes, alignment: 8)

    /// - Parameter listener: A listening socket of the type `SOCK_SEQPACKET`.
    init(
        listener: Int32, identify: @escaping (Int32) -> UInt32? = { PeerCredentials(of: $0)?.user },
        openDevice: @escaping () -> Int32,
        now: @escaping () -> ContinuousClock.Instant = { .now },
        log: @escaping (Severity, String) -> Void
    ) {
        self.listener = listener
        self.identify = identify
        self.openDevice = openDevice
        self.now = now
        self.log = log
    }

    /// Waits until a descriptor is ready, and serves all that are ready.
    ///
    /// - Parameter deadline: nil to wait without a limit.
    /// - Returns: Whether a descriptor was ready.
    mutating func step(until deadline: ContinuousClock.Instant?) -> Bool {
        var watched = [(listener, POLLIN)]
        for link in links { watched += [(link.connection, POLLIN), (link.device, POLLIN)] }
        guard let ready = try? Poll.wait(for: watched, until: deadline), !ready.isLate else {
            return false
        }
        var ended: [Int] = []
        for index in links.indices {
            let connection = ready.events[1 + 2 * index]
            let device = ready.events[2 + 2 * index]
            let isAlive =
                (device == 0 || copyFromDevice(of: index))
                && (connection == 0 || copyToDevice(links[index]))
            if !isAlive { ended.append(index) }
        }
        for index in ended.reversed() { remove(at: index) }
        if ready.events[0] != 0 { accept() }
        return true
    }

    /// Copies a message of the service to the device.
    ///
    /// - Returns: Whether the link continues. A message of another length ends it.
    private mutating func copyToDevice(_ link: Link) -> Bool {
        // A longer message fills the additional byte. Without a buffer for them, the kernel closes
        // descriptors that a message contains.
        let count = recv(
            link.connection, buffer.baseAddress, UHIDEvent.packetBytes + 1, Int32(MSG_DONTWAIT))
        if count < 0 { return errno == EAGAIN || errno == EINTR }
        guard count != 0 else { return false }
        guard count == UHIDEvent.packetBytes else {
            warn(
                about: link.user,
                "The service of user \(link.user) sent a message that is not a packet of 64 bytes.")
            return false
        }
        return write(
            UHIDEvent.input(UnsafeRawBufferPointer(rebasing: buffer[..<count])), to: link.device)
    }

    /// Copies all waiting packets of the device to the service: the kernel's queue has 31 places. A
    /// service that does not read loses packets when its socket is full.
    ///
    /// - Returns: Whether the link continues.
    private mutating func copyFromDevice(of index: Int) -> Bool {
        let link = links[index]
        for _ in 0..<Self.batch {
            let count = read(link.device, buffer.baseAddress, buffer.count)
            if count < 0 { return errno == EAGAIN || errno == EINTR }
            guard count > 0 else { return false }
            switch UHIDEvent(UnsafeRawBufferPointer(rebasing: buffer[..<count])) {
            case .packet(let packet): guard copy(packet, toServiceOf: index) else { return false }
            case .closed: guard copy(Self.closed, toServiceOf: index) else { return false }
            case .getReport(let id):
                guard write(UHIDEvent.refusalOfGetReport(id), to: link.device) else { return false }
            case .setReport(let id):
                guard write(UHIDEvent.refusalOfSetReport(id), to: link.device) else { return false }
            case .other: break
            case nil:
                warn(
                    about: link.user,
                    "The device of user \(link.user) sent an event that is too short.")
                return false
            }
        }
        return true
    }

    private mutating func copy(_ message: [UInt8], toServiceOf index: Int) -> Bool {
        let (link, flags) = (links[index], Int32(MSG_DONTWAIT | MSG_NOSIGNAL))
        guard send(link.connection, message, message.count, flags) < 0 else { return true }
        guard errno == EAGAIN else { return false }
        if !link.hasDropped {
            links[index].hasDropped = true
            warn(
                about: link.user,
                "The service of user \(link.user) does not read. Packets are lost.")
        }
        return true
    }

    /// Accepts a connection and creates the device of its user: one for each user, and none for
    /// root, whose programs could use every device anyway.
    private mutating func accept() {
        guard let connection = try? ListeningSocket.accept(on: listener) else { return }
        guard let user = identify(connection) else {
            return refuse(connection, of: nil, "its user is unknown")
        }
        guard user != 0 else { return refuse(connection, of: user, "root gets no device") }
        guard !links.contains(where: { $0.user == user }) else {
            return refuse(connection, of: user, "user \(user) already has a device")
        }
        guard links.count < Self.maximumLinks else {
            return refuse(connection, of: user, "there are too many devices")
        }
        guard devices.admit(user, at: now()) else {
            return refuse(connection, of: user, "user \(user) creates devices too often")
        }
        let device = openDevice()
        guard device >= 0 else {
            return refuse(connection, of: user, "/dev/uhid: \(SystemError.last)")
        }
        guard write(UHIDEvent.creation(user: user), to: device) else {
            let error = SystemError.last
            close(device)
            return refuse(
                connection, of: user, "the kernel did not create the device: \(error)")
        }
        links.append(Link(user: user, connection: connection, device: device))
        log(.info, "Created the device of user \(user).")
    }

    private mutating func refuse(_ connection: Int32, of user: UInt32?, _ reason: String) {
        close(connection)
        warn(about: user, "Refused a connection: \(reason).")
    }

    /// Closes both descriptors. The kernel then removes the device.
    private mutating func remove(at index: Int) {
        let link = links.remove(at: index)
        close(link.device)
        close(link.connection)
        log(.info, "Removed the device of user \(link.user).")
    }

    private mutating func warn(about user: UInt32?, _ text: String) {
        if warnings.admit(user, at: now()) { log(.warning, text) }
    }

    private func write(_ event: [UInt8], to device: Int32) -> Bool {
        Glibc.write(device, event, event.count) == event.count
    }
}
