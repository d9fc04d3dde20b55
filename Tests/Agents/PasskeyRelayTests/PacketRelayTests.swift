import CUHID
import Foundation
import LatchkeyPlatform
import LatchkeySimulators
import Testing

@testable import latchkey_uhid

/// The relay with sockets that preserve message boundaries in place of `/dev/uhid`.
struct PacketRelayTests {
    @Test func `packets pass in both directions, unchanged`() throws {
        let bench = try RelayBench()
        let service = try bench.connect()
        bench.step()
        let kernel = try #require(bench.kernelEnds.first)
        #expect(read(kernel) == UHIDEvent.creation(user: 1000))
        for round in 0..<100 {
            let packet = (0..<64).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ round) }
            #expect(write(output(packet), to: kernel))
            bench.step()
            #expect(read(service) == packet)
            #expect(write(packet.reversed(), to: service))
            bench.step()
            #expect(read(kernel) == UHIDEvent.input(packet.reversed()))
        }
    }

    @Test(arguments: [0, 1, 63, 65, 128, 4376])
    func `a message of another length ends the connection and the device`(length: Int) throws {
        let bench = try RelayBench()
        let service = try bench.connect()
        bench.step()
        let kernel = try #require(bench.kernelEnds.first)
        _ = read(kernel)
        // The first byte would be UHID_CREATE2.
        #expect(
            write(
                Array([11, 0, 0, 0] + [UInt8](repeating: 0, count: 4400)).prefix(length).map { $0 },
                to: service))
        bench.step()
        #expect(bench.relay.links.isEmpty)
        #expect(read(service) == [])
        #expect(read(kernel) == [])
    }

    @Test func `a message with a descriptor passes only its bytes`() throws {
        let bench = try RelayBench()
        let service = try bench.connect()
        bench.step()
        let kernel = try #require(bench.kernelEnds.first)
        _ = read(kernel)
        var ends: [Int32] = [-1, -1]
        try #require(
            socketpair(
                AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0, &ends) == 0)
        defer { close(ends[0]) }
        #expect(sendDescriptor(ends[1], with: [UInt8](repeating: 9, count: 64), to: service))
        close(ends[1])
        bench.step()
        #expect(read(kernel) == UHIDEvent.input([UInt8](repeating: 9, count: 64)))
        // The connection ends when all copies of its other end are closed. The relay has a copy
        // only if it accepted it.
        let ready = try Poll.wait(for: [(ends[0], POLLIN)], until: .now + hangLimit)
        #expect(!ready.isLate, "the relay has the descriptor")
        #expect(ready.events[0] & POLLHUP != 0)
    }

    @Test func `root gets no device`() throws {
        let bench = try RelayBench(users: [0])
        let service = try bench.connect()
        bench.step()
        #expect(read(service) == [])
        #expect(bench.kernelEnds.isEmpty)
        #expect(bench.messages == ["Refused a connection: root gets no device."])
    }

    @Test func `a user gets one device, and another one after the first has ended`() throws {
        let bench = try RelayBench(users: [1000, 1000, 1001, 1000])
        let first = try bench.connect()
        bench.step()
        let second = try bench.connect()
        bench.step()
        #expect(read(second) == [])
        let other = try bench.connect()
        bench.step()
        #expect(bench.relay.links.map(\.user) == [1000, 1001])
        bench.disconnect(first)
        bench.step()
        #expect(bench.relay.links.map(\.user) == [1001])
        _ = try bench.connect()
        bench.step()
        #expect(bench.relay.links.map(\.user) == [1001, 1000])
        #expect(write([UInt8](repeating: 1, count: 64), to: other))
    }

    @Test func `there are at most 64 devices, one for each user ID`() throws {
        // The subordinate IDs of one user count as users.
        let bench = try RelayBench(users: Array(100_000...100_064))
        for _ in 0..<64 {
            _ = try bench.connect()
            bench.step()
        }
        #expect(bench.relay.links.count == 64)
        let last = try bench.connect()
        bench.step()
        #expect(read(last) == [])
        #expect(bench.messages == ["Refused a connection: there are too many devices."])
    }

    @Test func `the kernel's credentials decide who the user is`() throws {
        var ends: [Int32] = [-1, -1]
        #expect(socketpair(AF_UNIX, RelayBench.type, 0, &ends) == 0)
        defer { ends.forEach { close($0) } }
        #expect(PeerCredentials(of: ends[0])?.user == getuid())
        #expect(PeerCredentials(of: STDIN_FILENO)?.user == nil)
    }

    @Test func `a connection of an unknown user, or without a device, is closed`() throws {
        let unknown = try RelayBench(users: [])
        let stranger = try unknown.connect()
        unknown.step()
        #expect(read(stranger) == [])
        let bare = try RelayBench()
        bare.hasDevice = false
        let service = try bare.connect()
        bare.step()
        #expect(read(service) == [])
        #expect(bare.messages == ["Refused a connection: /dev/uhid: No such file or directory."])
    }

    @Test func `the end of the device ends the connection`() throws {
        let bench = try RelayBench()
        let service = try bench.connect()
        bench.step()
        bench.removeDevice()
        bench.step()
        #expect(read(service) == [])
    }

    @Test func `a service that does not read loses packets, and the relay continues`() throws {
        let bench = try RelayBench(users: [1000, 1001])
        let silent = try bench.connect()
        bench.step()
        let other = try bench.connect()
        bench.step()
        let kernels = bench.kernelEnds
        for kernel in kernels { _ = read(kernel) }
        for round in 0..<2000 {
            #expect(
                write(
                    output([UInt8](repeating: UInt8(truncatingIfNeeded: round), count: 64)),
                    to: kernels[0]))
            bench.step()
        }
        #expect(bench.messages.filter { $0.contains("Packets are lost") }.count == 1)
        let packet = [UInt8](repeating: 5, count: 64)
        #expect(write(output(packet), to: kernels[1]))
        bench.step()
        #expect(read(other) == packet)
        #expect(read(silent)?.count == 64)
    }

    @Test func `requests for reports get a reply, and a closed device is a message`() throws {
        let bench = try RelayBench()
        let service = try bench.connect()
        bench.step()
        let kernel = try #require(bench.kernelEnds.first)
        _ = read(kernel)
        for type in [UHID_START, UHID_OPEN, UHID_CLOSE, UHID_STOP, UHID_GET_REPORT] {
            var memory = [UInt8](repeating: 0, count: latchkey_uhid_event_size())
            latchkey_uhid_request(&memory, type.rawValue, 3)
            #expect(write(memory, to: kernel))
        }
        bench.step()
        #expect(read(kernel) == UHIDEvent.refusalOfGetReport(3))
        #expect(read(service) == PacketRelay.closed)
        #expect(bench.relay.links.count == 1)
    }

    @Test func `a user creates one device a second on average, and others are not affected`()
        throws
    {
        let flood = [UInt32](repeating: 1000, count: 100)
        let bench = try RelayBench(users: flood + [1001] + flood)
        func connectAndLeave() throws -> Bool {
            let count = bench.kernelEnds.count
            let service = try bench.connect()
            bench.step()
            let isNew = bench.kernelEnds.count > count
            bench.disconnect(service)
            bench.step()
            return isNew
        }
        let first = try (0..<100).count { _ in try connectAndLeave() }
        #expect(first == 5, "the burst for restarts of the service")
        #expect(bench.messages == ["Refused a connection: user 1000 creates devices too often."])
        #expect(try connectAndLeave(), "another user's device")
        var devices = 0
        for _ in 0..<100 {
            bench.clock += .milliseconds(500)
            if try connectAndLeave() { devices += 1 }
        }
        #expect(devices == 46, "five in each five seconds")
    }

    @Test func `a user causes one warning in ten seconds, and others' warnings appear`() throws {
        let flood = [UInt32](repeating: 1000, count: 200)
        let bench = try RelayBench(users: [1000] + flood + [0, 1001, 1001] + flood)
        func connect(times: Int) throws {
            for _ in 0..<times {
                _ = try bench.connect()
                bench.step()
            }
        }
        try connect(times: 201)
        let flooded = "Refused a connection: user 1000 already has a device."
        #expect(bench.messages == [flooded])
        try connect(times: 3)
        let others = [
            "Refused a connection: root gets no device.",
            "Refused a connection: user 1001 already has a device.",
        ]
        #expect(bench.messages == [flooded] + others)
        bench.clock += .seconds(9)
        try connect(times: 100)
        #expect(bench.messages == [flooded] + others)
        bench.clock += .seconds(1)
        try connect(times: 100)
        #expect(bench.messages == [flooded] + others + [flooded])
    }

    private func output(_ packet: [UInt8]) -> [UInt8] {
        var memory = [UInt8](repeating: 0, count: latchkey_uhid_event_size())
        latchkey_uhid_output(&memory, [0] + packet, 65, 1)
        return memory
    }

    /// The next message; empty at the end of the connection; nil on an error, or if none comes
    /// within a minute.
    private func read(_ descriptor: Int32) -> [UInt8]? {
        var buffer = [UInt8](repeating: 0, count: 5000)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        return count < 0 ? nil : Array(buffer.prefix(count))
    }

    private func write(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count
    }

    /// Sends a message with a descriptor (`SCM_RIGHTS`).
    private func sendDescriptor(_ descriptor: Int32, with bytes: [UInt8], to socket: Int32) -> Bool
    {
        var bytes = bytes
        // struct cmsghdr: size_t length, int level, int type; then the descriptor, aligned.
        var control = [UInt8](repeating: 0, count: 24)
        control.withUnsafeMutableBytes {
            $0.storeBytes(of: 20, as: Int.self)
            $0.storeBytes(of: SOL_SOCKET, toByteOffset: 8, as: Int32.self)
            $0.storeBytes(of: 1, toByteOffset: 12, as: Int32.self)
            $0.storeBytes(of: descriptor, toByteOffset: 16, as: Int32.self)
        }
        return bytes.withUnsafeMutableBytes { bytes in
            control.withUnsafeMutableBytes { control in
                var part = iovec(iov_base: bytes.baseAddress, iov_len: bytes.count)
                return withUnsafeMutablePointer(to: &part) { part in
                    var message = msghdr()
                    message.msg_iov = part
                    message.msg_iovlen = 1
                    message.msg_control = control.baseAddress
                    message.msg_controllen = control.count
                    return sendmsg(socket, &message, 0) == bytes.count
                }
            }
        }
    }
}

/// A relay with a listening socket, scripted users, and sockets in place of `/dev/uhid`.
private final class RelayBench {
    /// The type of the sockets. It preserves message boundaries, and programs that other tests
    /// start do not inherit the sockets.
    static let type = Int32(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue)

    private let directory: TemporaryDirectory
    private let path: String
    private let listener: Int32
    private var users: [UInt32]
    private(set) var relay: PacketRelay!
    private(set) var messages: [String] = []
    /// The other ends of the devices.
    var kernelEnds: [Int32] = []
    var hasDevice = true
    /// The relay's time.
    var clock = ContinuousClock.now
    private var connections: [Int32] = []

    init(users: [UInt32] = [1000]) throws {
        self.users = users
        directory = try TemporaryDirectory()
        path = directory.path + "/uhid.sock"
        listener = socket(AF_UNIX, Self.type, 0)
        let listener = listener
        let address = try #require(UNIXSocketAddress(path: path))
        #expect(address.withPointer { bind(listener, $0, $1) } == 0)
        #expect(listen(listener, 5) == 0)
        relay = PacketRelay(
            listener: listener,
            identify: { [unowned self] _ in self.users.isEmpty ? nil : self.users.removeFirst() },
            openDevice: { [unowned self] in openDevice() }, now: { [unowned self] in clock },
            log: { [unowned self] in messages.append($1) })
        messages = []
    }

    deinit {
        for descriptor in connections + kernelEnds + [listener] { close(descriptor) }
    }

    func connect() throws -> Int32 {
        let connection = socket(AF_UNIX, Self.type, 0)
        limitWaits(of: connection)
        connections.append(connection)
        let address = try #require(UNIXSocketAddress(path: path))
        #expect(address.withPointer { Glibc.connect(connection, $0, $1) } == 0)
        return connection
    }

    func disconnect(_ connection: Int32) {
        connections.removeAll { $0 == connection }
        endSocket(connection)
    }

    /// Ends the first device.
    func removeDevice() {
        endSocket(kernelEnds.removeFirst())
    }

    private func limitWaits(of descriptor: Int32) {
        var limit = timeval(tv_sec: 60, tv_usec: 0)
        setsockopt(
            descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    }

    /// Serves all descriptors that are ready.
    func step() {
        while relay.step(until: .now) {}
        messages.removeAll { $0.hasPrefix("Created") || $0.hasPrefix("Removed") }
    }

    private func openDevice() -> Int32 {
        guard hasDevice else {
            errno = ENOENT
            return -1
        }
        var ends: [Int32] = [-1, -1]
        guard socketpair(AF_UNIX, Self.type, 0, &ends) == 0 else { return -1 }
        _ = fcntl(ends[0], F_SETFL, O_NONBLOCK)
        limitWaits(of: ends[1])
        kernelEnds.append(ends[1])
        return ends[0]
    }
}
