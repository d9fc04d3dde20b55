import Glibc

@testable import LatchkeyPresence

/// A malicious message bus: it accepts a ``BusConnection``, and then calls one of its methods with
/// arguments that the fuzzer chooses.
final class HostileBus {
    private static let path = "/org/latchkey/Presence1"

    private let connection: BusConnection
    private let peer: Int32
    private var calls: [[BusValue]] = []

    private init?() {
        let address = sockaddr_un.temporary
        let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        defer {
            close(listener)
            unlink(address.text)
        }
        guard listener >= 0, address.bind(listener), listen(listener, 1) == 0,
            let connection = try? BusConnection(address: "unix:path=\(address.text)", onClose: {})
        else { return nil }
        peer = accept(listener, nil, nil)
        self.connection = connection
        guard peer >= 0, welcome() else { return nil }
        do throws(BusError) {
            try connection.serve { [unowned self] message in
                guard message.isReadable else { return .answer(.failure(.unreadableArguments)) }
                calls.append(message.arguments)
                return .answer(.success(message.arguments.filter { $0 != .other }))
            }
        } catch {
            return nil
        }
    }

    deinit {
        connection.close()
        close(peer)
    }

    /// Returns the arguments that a client reads from a call.
    ///
    /// - Parameter input: The length of the arguments' signature in a byte, the signature, the
    ///   arguments.
    static func arguments(of input: [UInt8]) -> [[BusValue]] {
        guard let count = input.first.map(Int.init), input.count > count, let bus = HostileBus()
        else { return [] }
        let signature = input.dropFirst().prefix(count)
        guard !signature.contains(0) else { return [] }
        bus.send(
            DBusMessage.call(path, signature: Array(signature), body: Array(input[(count + 1)...])))
        bus.connection.process()
        return bus.calls
    }

    /// The bus's side of the authentication (D-Bus Specification, sections "Authentication
    /// Protocol" and "Hello").
    private func welcome() -> Bool {
        // libsystemd leaves its name out, sends empty DATA, and does not wait for either answer.
        send(Array("DATA\r\nOK 0123456789abcdef0123456789abcdef\r\n".utf8))
        for _ in 0..<20 {
            connection.process()
            guard let heard = receive(), let serial = DBusMessage.serialOfCall(in: heard) else {
                continue
            }
            send(DBusMessage.welcome(to: serial))
            connection.process()
            return true
        }
        return false
    }

    private func send(_ bytes: [UInt8]) {
        _ = Glibc.send(peer, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }

    /// The bytes that have arrived.
    private func receive() -> [UInt8]? {
        var buffer = [UInt8](repeating: 0, count: 4096)
        let count = recv(peer, &buffer, buffer.count, Int32(MSG_DONTWAIT))
        return count > 0 ? Array(buffer.prefix(count)) : nil
    }
}

extension sockaddr_un {
    /// A unique name.
    fileprivate static var temporary: (text: String, bind: (Int32) -> Bool) {
        let text = "/tmp/latchkey-fuzz-\(getpid())-\(UInt64.random(in: .min ... .max))"
        return (
            text,
            { descriptor in
                var address = sockaddr_un()
                address.sun_family = sa_family_t(AF_UNIX)
                withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: text.utf8) }
                return withUnsafePointer(to: address) { pointer in
                    pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                        Glibc.bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
                    }
                }
            }
        )
    }
}
