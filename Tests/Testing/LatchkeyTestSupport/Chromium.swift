package import Foundation
internal import Glibc
internal import LatchkeyPlatform
internal import LatchkeySimulators

/// A headless Chromium, driven over the WebDriver protocol (W3C WebDriver) through `chromedriver`.
///
/// Needs Debian's packages `chromium` and `chromium-driver`: see ``isAvailable``.
package final class Chromium: Sendable {
    /// An error of the browser, with its message.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// Whether both programs are installed.
    package static var isAvailable: Bool {
        path(of: "chromium") != nil && path(of: "chromedriver") != nil
    }

    /// The time limit of a command or a wait, in seconds.
    package static let deadline = Int(hangLimit.components.seconds)

    private let driver: Driver
    private let session: Session

    private struct Driver: Sendable {
        let process: RunningProgram
        let directory: URL
    }

    /// The address of a WebDriver session.
    private struct Session: Sendable {
        let port: Int
        let path: String
    }

    private init(driver: Driver, session: Session) {
        self.driver = driver
        self.session = session
    }

    /// Runs `body` with a new browser, then stops the browser.
    package static func run<Value: Sendable>(
        _ body: @Sendable (Chromium) async throws -> Value
    ) async throws -> Value {
        let browser = try await start()
        return try await withTeardown({ await browser.stop() }) { try await body(browser) }
    }

    // MARK: Commands

    /// Opens a URL and waits until the page has loaded.
    package func open(_ address: String) async throws {
        _ = try await command("POST", "url", ["url": address])
    }

    /// The URL of the page.
    package func address() async throws -> String {
        try text(await command("GET", "url"))
    }

    /// Types into the first element that matches a CSS selector.
    package func type(_ text: String, into selector: String) async throws {
        _ = try await command("POST", "element/\(find(selector))/value", ["text": text])
    }

    /// Clicks the first element that matches a CSS selector, and waits for the next page.
    package func click(_ selector: String) async throws {
        _ = try await command("POST", "element/\(find(selector))/click", [:])
    }

    /// The visible text of the first element that matches a CSS selector.
    package func text(of selector: String) async throws -> String {
        try text(await command("GET", "element/\(find(selector))/text"))
    }

    /// Waits until the URL satisfies `condition`.
    package func waitForAddress(_ condition: @Sendable (String) -> Bool) async throws -> String {
        let end = Date().addingTimeInterval(TimeInterval(Self.deadline))
        while Date() < end {
            let address = try await address()
            if condition(address) { return address }
            try await Task.sleep(for: .milliseconds(50))
        }
        throw Failure(description: "the browser stayed at \(try await address())")
    }

    /// Writes a screenshot to a PNG file.
    package func screenshot(to file: URL) async throws {
        guard let image = Data(base64Encoded: try text(await command("GET", "screenshot"))) else {
            throw Failure(description: "the screenshot is not base64")
        }
        try image.write(to: file)
    }

    // MARK: WebDriver

    private static let elementKey = "element-6066-11e4-a52e-4f735466cecf"

    private func find(_ selector: String) async throws -> String {
        let found = try await command(
            "POST", "element", ["using": "css selector", "value": selector])
        guard let id = (found as? [String: Any])?[Self.elementKey] as? String else {
            throw Failure(description: "no element \(selector)")
        }
        return id
    }

    private func command(_ method: String, _ name: String, _ body: [String: Any]? = nil)
        async throws -> Any
    {
        try await Self.send(
            method, Session(port: session.port, path: "\(session.path)/\(name)"), body)
    }

    private func text(_ value: Any) throws -> String {
        guard let text = value as? String else {
            throw Failure(description: "not a text: \(value)")
        }
        return text
    }

    private static func send(_ method: String, _ target: Session, _ body: [String: Any]?)
        async throws -> Any
    {
        let json = try body.map { try JSONSerialization.data(withJSONObject: $0) } ?? Data()
        let data = try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(
                    with: Result {
                        try WebDriverConnection.exchange(
                            port: target.port, method: method, path: target.path, body: json,
                            deadline: deadline)
                    })
            }
        }
        let answer =
            try JSONSerialization.jsonObject(with: data, options: .fragmentsAllowed)
            as? [String: Any]
        let value = answer?["value"] ?? NSNull()
        if let failure = value as? [String: Any], let error = failure["error"] as? String {
            let message = (failure["message"] as? String)?.split(separator: "\n").first ?? ""
            throw Failure(description: "\(error): \(message)")
        }
        return value
    }

    // MARK: Starting and stopping

    private static func start() async throws -> Chromium {
        guard let program = path(of: "chromedriver"), let chromium = path(of: "chromium") else {
            throw Failure(description: "chromium and chromedriver are not installed")
        }
        let directory = FileManager.default.temporaryDirectory.appending(
            path: "latchkey-browser-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        let (process, port) = try await startDriver(program)
        let driver = Driver(process: process, directory: directory)
        do {
            let arguments = [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--no-first-run",
                "--window-size=900,800", "--user-data-dir=\(directory.path())",
            ]
            let options: [String: Any] = ["binary": chromium, "args": arguments]
            let made = try await send(
                "POST", Session(port: port, path: "/session"),
                ["capabilities": ["alwaysMatch": ["goog:chromeOptions": options]]])
            guard let id = (made as? [String: Any])?["sessionId"] as? String else {
                throw Failure(description: "chromedriver made no session")
            }
            let browser = Chromium(
                driver: driver, session: Session(port: port, path: "/session/\(id)"))
            // A click may return before the next page has loaded, so finding an element waits for
            // it.
            _ = try await browser.command("POST", "timeouts", ["implicit": deadline * 1000])
            return browser
        } catch {
            await stop(driver)
            throw error
        }
    }

    /// Starts chromedriver. Retries if it exits, because its IPv4 port may be in use for IPv6.
    private static func startDriver(_ program: String) async throws -> (RunningProgram, port: Int) {
        var failure: any Error = Failure(description: "chromedriver did not start")
        for _ in 1...5 {
            let process = try RunningProgram(URL(filePath: program), ["--port=0"])
            do {
                return (process, try await port(of: process))
            } catch {
                await process.stop(SIGKILL)
                failure = error
            }
        }
        throw failure
    }

    private func stop() async {
        // Ends Chromium. The driver ends next, even if this fails.
        _ = try? await Self.send("DELETE", session, nil)
        await Self.stop(driver)
    }

    private static func stop(_ driver: Driver) async {
        // chromedriver reacts slowly to SIGTERM, and it has no state to save.
        await driver.process.stop(SIGKILL)
        try? FileManager.default.removeItem(at: driver.directory)
    }

    /// The port in chromedriver's line "… was started successfully on port 12345."
    private static func port(of driver: RunningProgram) async throws -> Int {
        let line = await driver.output { $0.contains("successfully on port ") }
        let digits = line.components(separatedBy: "successfully on port ").last?.prefix {
            $0.isNumber
        }
        guard let port = digits.flatMap({ Int($0) }) else {
            throw Failure(description: "chromedriver did not start: \(line)")
        }
        return port
    }

    private static func path(of program: String) -> String? {
        (ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin").split(separator: ":")
            .map { "\($0)/\(program)" }.first { FileManager.default.isExecutableFile(atPath: $0) }
    }
}

/// Sends one request to a WebDriver on the loopback address, over a new connection.
///
/// Foundation's URLSession rejects chromedriver's response headers on Linux, so this implements the
/// required part of HTTP.
enum WebDriverConnection {
    /// Sends a request and returns the body of the response. It blocks the thread.
    static func exchange(port: Int, method: String, path: String, body: Data, deadline: Int) throws
        -> Data
    {
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
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var limit = timeval(tv_sec: deadline, tv_usec: 0)
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            setsockopt(
                descriptor, SOL_SOCKET, option, &limit, socklen_t(MemoryLayout<timeval>.size))
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
            throw Chromium.Failure(
                description: "chromedriver cannot be reached: \(SystemError.last)")
        }
        return descriptor
    }

    private static func write(_ bytes: Data, to socket: Int32) throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else {
                throw Chromium.Failure(description: "chromedriver does not accept the request")
            }
            rest = rest.dropFirst(count)
        }
    }

    private static func response(from socket: Int32) throws -> Data {
        var seen = Data()
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            if let body = completeBody(of: seen) { return body }
            let count = recv(socket, &buffer, buffer.count, 0)
            guard count > 0 else {
                throw Chromium.Failure(
                    description: "chromedriver did not send a complete response in time")
            }
            seen += buffer.prefix(count)
        }
    }

    /// The body, or nil if it is shorter than the header's content length.
    private static func completeBody(of response: Data) -> Data? {
        guard let end = response.range(of: Data("\r\n\r\n".utf8)) else { return nil }
        let lines = String(decoding: response[..<end.lowerBound], as: UTF8.self).split(
            separator: "\r\n")
        let length = lines.first { $0.lowercased().hasPrefix("content-length:") }?.split(
            separator: ":"
        ).last
            .flatMap { Int($0.trimmingCharacters(in: .whitespaces)) }
        guard let length else { return nil }
        let body = response[end.upperBound...]
        return body.count >= length ? Data(body.prefix(length)) : nil
    }
}
