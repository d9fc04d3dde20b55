internal import Foundation
internal import Glibc

/// One request to a WebDriver on the loopback address, over a socket of its own.
///
/// Foundation's URLSession refuses chromedriver's response headers on Linux, so this speaks the little HTTP that is
/// needed.
enum WebDriverConnection {
    /// Sends a request and returns the body of the response. Blocks: call it on a thread of its own.
    static func exchange(port: Int, method: String, path: String, body: Data, deadline: Int) throws -> Data {
        let socket = try connect(port: port, deadline: deadline)
        defer { close(socket) }
        let head = """
            \(method) \(path) HTTP/1.1\r
            Host: 127.0.0.1:\(port)\r
            Content-Type: application/json\r
            Content-Length: \(body.count)\r
            Connection: close\r
            \r\n
            """
        try write(Data(head.utf8) + body, to: socket)
        return try response(from: socket)
    }

    private static func connect(port: Int, deadline: Int) throws -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var limit = timeval(tv_sec: deadline, tv_usec: 0)
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            setsockopt(descriptor, SOL_SOCKET, option, &limit, socklen_t(MemoryLayout<timeval>.size))
        }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let connected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else {
            close(descriptor)
            throw Chromium.Failure(description: "chromedriver can't be reached: \(String(cString: strerror(errno)))")
        }
        return descriptor
    }

    private static func write(_ bytes: Data, to socket: Int32) throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { throw Chromium.Failure(description: "chromedriver takes no request") }
            rest = rest.dropFirst(count)
        }
    }

    private static func response(from socket: Int32) throws -> Data {
        var seen = Data()
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            if let body = completeBody(of: seen) { return body }
            let count = recv(socket, &buffer, buffer.count, 0)
            guard count > 0 else { throw Chromium.Failure(description: "chromedriver gave no whole answer in time") }
            seen += buffer.prefix(count)
        }
    }

    /// The body, once as much of it is there as the header says.
    private static func completeBody(of response: Data) -> Data? {
        guard let end = response.range(of: Data("\r\n\r\n".utf8)) else { return nil }
        let lines = String(decoding: response[..<end.lowerBound], as: UTF8.self).split(separator: "\r\n")
        let length = lines.first { $0.lowercased().hasPrefix("content-length:") }?.split(separator: ":").last
            .flatMap { Int($0.trimmingCharacters(in: .whitespaces)) }
        guard let length else { return nil }
        let body = response[end.upperBound...]
        return body.count >= length ? Data(body.prefix(length)) : nil
    }
}
