import Foundation
import LatchkeyTestSupport
import Testing

/// A program of another user with many connections that sends every message that the bus accepts.
/// It implements the bus's wire format, because no library sends such messages.
struct Flood {
    enum Kind: String {
        /// Calls with one text of 31 MB.
        case long
        /// Calls with sixteen file descriptors.
        case descriptors
        /// Repeated calls over new connections, until the program is ended.
        case connections
        /// Calls of many kinds whose answers are not read, until the program is ended.
        case unread
        /// The same until 400 calls are sent over each connection. The program then prints the
        /// number of the broker's answers.
        case counted
        /// Calls that want no answer, until the program is ended.
        case noReply
    }

    let bus: String

    /// Runs the program until all messages are sent.
    func run(_ kind: Kind, connections: Int) async throws {
        let process = try start(kind, connections: connections)
        let complaint = await process.remainder().errors
        #expect(await process.wait() == 0, "\(complaint)")
    }

    /// Runs the program until all messages are sent.
    ///
    /// - Returns: The number of the broker's answers.
    func answers(connections: Int) async throws -> Int {
        let process = try start(.counted, connections: connections)
        let written = await process.remainder()
        #expect(await process.wait() == 0, "\(written.errors)")
        return try #require(
            written.output.split(separator: "\n").last.flatMap { Int($0) }, "\(written)")
    }

    /// Starts the program, and returns when it sends messages.
    func started(_ kind: Kind, connections: Int) async throws -> RunningProgram {
        let process = try start(kind, connections: connections)
        let said = await process.output { $0.contains("flooding") }
        try #require(said.contains("flooding"))
        return process
    }

    private func start(_ kind: Kind, connections: Int) throws -> RunningProgram {
        let path =
            try #require(bus.split(separator: "=").last).split(separator: ",").first.map(
                String.init) ?? ""
        return try RunningProgram(
            URL(filePath: "/usr/bin/setpriv"),
            [
                "--reuid=\(Stranger.nobody)", "--regid=\(Stranger.nobody)", "--clear-groups",
                "/usr/bin/python3", "-c",
                Self.program, path, kind.rawValue, "\(connections)",
            ])
    }

    private static let program = #"""
        import array, os, socket, struct, sys, threading, time
        path, kind, connections = sys.argv[1], sys.argv[2], int(sys.argv[3])
        broker = ('org.latchkey.Presence1', '/org/latchkey/Presence1', 'org.latchkey.Presence1')

        def text(value):
            return struct.pack('<I', len(value)) + value.encode() + b'\0'

        def call(destination, path, interface, member, argument=None, descriptors=0, flags=0):
            fields = b''
            values = [(1, 'o', path), (6, 's', destination), (2, 's', interface), (3, 's', member)]
            if argument is not None: values.append((8, 'g', 's'))
            if descriptors: values.append((9, 'u', descriptors))
            for code, kind, value in values:
                fields += b'\0' * (-len(fields) % 8) + bytes([code, 1]) + kind.encode() + b'\0'
                if kind == 'g': fields += bytes([len(value)]) + value.encode() + b'\0'
                elif kind == 'u': fields += struct.pack('<I', value)
                else: fields += text(value)
            body = text(argument) if argument is not None else b''
            head = b'l\x01' + bytes([flags]) + b'\x01' + struct.pack('<III', len(body), 7, len(fields)) + fields
            return head + b'\0' * (-len(head) % 8) + body

        def connect():
            end = socket.socket(socket.AF_UNIX)
            end.connect(path)
            end.sendall(b'\0AUTH EXTERNAL ' + str(os.getuid()).encode().hex().encode() + b'\r\n')
            assert end.recv(100).startswith(b'OK')
            end.sendall(b'NEGOTIATE_UNIX_FD\r\n')
            assert end.recv(100).startswith(b'AGREE')
            hello = call('org.freedesktop.DBus', '/org/freedesktop/DBus', 'org.freedesktop.DBus', 'Hello')
            end.sendall(b'BEGIN\r\n' + hello)
            assert end.recv(4096)
            return end

        def drain(end):
            try:
                while end.recv(65536): pass
            except OSError: pass

        def flood(end):
            try:
                if kind == 'long':
                    for _ in range(4): end.sendall(call(*broker, 'Terms', 'x' * 31_000_000))
                else:
                    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', 16 * [0]))
                    for _ in range(8): end.sendmsg([call(*broker, 'Terms', 'x', 16)], [rights])
            except OSError: pass  # The bus has had enough of it.

        def reconnect():
            # All calls of a connection at once, before the bus can say whose it is.
            calls = b''.join(call(*broker, 'State') for _ in range(8))
            while True:
                try:
                    end = connect()
                    end.sendall(calls)
                    end.settimeout(1)
                    end.recv(65536)
                    end.close()
                except (OSError, AssertionError): pass

        def unread(end, times):
            name, path, interface = broker
            kinds = [
                (name, path, interface, 'State'), (name, path, interface, 'Cancel'),
                (name, path, interface, 'Nothing'), (name, '/nowhere', interface, 'State'),
                (name, path, 'org.freedesktop.DBus.Peer', 'Ping'),
                (name, path, 'org.freedesktop.DBus.Peer', 'GetMachineId'),
                (name, path, 'org.freedesktop.DBus.Introspectable', 'Introspect'),
                (name, '/', 'org.freedesktop.DBus.Introspectable', 'Introspect')]
            flags = 1 if kind == 'noReply' else 0
            calls = b''.join(call(*each, flags=flags) for each in kinds)
            try:
                for _ in range(times):
                    end.sendall(calls)
                    # Slowly, so that the bus does not refuse the calls.
                    time.sleep(0.05)
            except OSError: pass

        def answers(end):
            # Counts the messages that are not of the bus, until none comes for two seconds.
            end.settimeout(2)
            data = b''
            try:
                while part := end.recv(1 << 20): data += part
            except OSError: pass
            count = 0
            while len(data) >= 16:
                body, _, fields = struct.unpack('<III', data[4:16])
                length = 16 + fields + -fields % 8 + body
                head = data[16:16 + fields]
                if b's\0\x14\0\0\0org.freedesktop.DBus\0' not in head: count += 1
                data = data[length:]
            return count

        if kind in ('unread', 'noReply', 'counted'):
            ends = [connect() for _ in range(connections)]
            print('flooding', flush=True)
            times = 50 if kind == 'counted' else 100000
            threads = [threading.Thread(target=unread, args=(end, times)) for end in ends]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            counts = []
            threads = [threading.Thread(target=lambda end=end: counts.append(answers(end))) for end in ends]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            print(sum(counts), flush=True)
            sys.exit(0)

        if kind == 'connections':
            for _ in range(connections): threading.Thread(target=reconnect, daemon=True).start()
            time.sleep(1)
            print('flooding', flush=True)
            time.sleep(600)

        ends = [connect() for _ in range(connections)]
        for end in ends: threading.Thread(target=drain, args=(end,), daemon=True).start()
        threads = [threading.Thread(target=flood, args=(end,)) for end in ends]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        time.sleep(1)
        """#
}
