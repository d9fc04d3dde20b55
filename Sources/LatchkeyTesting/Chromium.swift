package import Foundation

/// A headless Chromium, driven over the WebDriver protocol (W3C WebDriver) through `chromedriver`.
///
/// Needs Debian's packages `chromium` and `chromium-driver`: see ``isAvailable``.
package final class Chromium: Sendable {
    /// A browser that could not do what it was asked, and what it said.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// Whether both programs are installed. A test that needs a browser is skipped without, and says so.
    package static var isAvailable: Bool { path(of: "chromium") != nil && path(of: "chromedriver") != nil }

    /// How long a command or a wait may take, in seconds.
    package static let deadline = 120

    private let driver: Driver
    private let session: Session

    private struct Driver: Sendable {
        let process: RunningProgram
        let directory: URL
    }

    /// Where commands go.
    private struct Session: Sendable {
        let port: Int
        let path: String
    }

    private init(driver: Driver, session: Session) {
        self.driver = driver
        self.session = session
    }

    /// Starts a browser, lends it to `body`, and stops it.
    package static func run<Value: Sendable>(
        _ body: @Sendable (Chromium) async throws -> Value
    ) async throws -> Value {
        let browser = try await start()
        do {
            let value = try await body(browser)
            await browser.stop()
            return value
        } catch {
            await browser.stop()
            throw error
        }
    }

    // MARK: Commands

    /// Opens an address and waits until it has loaded.
    package func open(_ address: String) async throws {
        _ = try await command("POST", "url", ["url": address])
    }

    /// The address that is shown.
    package func address() async throws -> String {
        try text(await command("GET", "url"))
    }

    /// The page's HTML as it stands.
    package func source() async throws -> String {
        try text(await command("GET", "source"))
    }

    /// Types into the one element that a CSS selector finds.
    package func type(_ text: String, into selector: String) async throws {
        _ = try await command("POST", "element/\(find(selector))/value", ["text": text])
    }

    /// Clicks on the first element that a CSS selector finds, and waits for what it leads to.
    package func click(_ selector: String) async throws {
        _ = try await command("POST", "element/\(find(selector))/click", [:])
    }

    /// The visible text of the first element that a CSS selector finds.
    package func text(of selector: String) async throws -> String {
        try text(await command("GET", "element/\(find(selector))/text"))
    }

    /// Waits until the address satisfies `condition`.
    package func waitForAddress(_ condition: @Sendable (String) -> Bool) async throws -> String {
        let end = Date().addingTimeInterval(TimeInterval(Self.deadline))
        while Date() < end {
            let address = try await address()
            if condition(address) { return address }
            try await Task.sleep(for: .milliseconds(50))
        }
        throw Failure(description: "the browser stayed at \(try await address())")
    }

    /// Writes a picture of the window to a PNG file.
    package func screenshot(to file: URL) async throws {
        guard let image = Data(base64Encoded: try text(await command("GET", "screenshot"))) else {
            throw Failure(description: "the screenshot is not base64")
        }
        try image.write(to: file)
    }

    // MARK: WebDriver

    private static let elementKey = "element-6066-11e4-a52e-4f735466cecf"

    private func find(_ selector: String) async throws -> String {
        let found = try await command("POST", "element", ["using": "css selector", "value": selector])
        guard let id = (found as? [String: Any])?[Self.elementKey] as? String else {
            throw Failure(description: "no element \(selector)")
        }
        return id
    }

    private func command(_ method: String, _ name: String, _ body: [String: Any]? = nil) async throws -> Any {
        try await Self.send(method, Session(port: session.port, path: "\(session.path)/\(name)"), body)
    }

    private func text(_ value: Any) throws -> String {
        guard let text = value as? String else { throw Failure(description: "not a text: \(value)") }
        return text
    }

    private static func send(_ method: String, _ target: Session, _ body: [String: Any]?) async throws -> Any {
        let json = try body.map { try JSONSerialization.data(withJSONObject: $0) } ?? Data()
        let data = try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(
                    with: Result {
                        try WebDriverConnection.exchange(
                            port: target.port, method: method, path: target.path, body: json, deadline: deadline)
                    })
            }
        }
        let answer = try JSONSerialization.jsonObject(with: data, options: .fragmentsAllowed) as? [String: Any]
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
        let directory = FileManager.default.temporaryDirectory.appending(path: "latchkey-browser-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        let (process, port) = try await startDriver(program)
        let driver = Driver(process: process, directory: directory)
        do {
            let arguments = [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                "--window-size=900,800", "--user-data-dir=\(directory.path())",
            ]
            let options: [String: Any] = ["binary": chromium, "args": arguments]
            let made = try await send(
                "POST", Session(port: port, path: "/session"),
                ["capabilities": ["alwaysMatch": ["goog:chromeOptions": options]]])
            guard let id = (made as? [String: Any])?["sessionId"] as? String else {
                throw Failure(description: "chromedriver made no session")
            }
            let browser = Chromium(driver: driver, session: Session(port: port, path: "/session/\(id)"))
            // A click may return before the page that it leads to is there: finding an element waits for it.
            _ = try await browser.command("POST", "timeouts", ["implicit": 5_000])
            return browser
        } catch {
            await stop(driver)
            throw error
        }
    }

    /// Starts chromedriver, again where it ends at once: the port that it was given for IPv4 may be another's for IPv6.
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
        // Ends Chromium; the driver is ended either way.
        _ = try? await Self.send("DELETE", session, nil)
        await Self.stop(driver)
    }

    private static func stop(_ driver: Driver) async {
        // chromedriver takes its time over SIGTERM, and has nothing to lose.
        await driver.process.stop(SIGKILL)
        try? FileManager.default.removeItem(at: driver.directory)
    }

    /// The port in chromedriver's line "… was started successfully on port 12345."
    private static func port(of driver: RunningProgram) async throws -> Int {
        let announced = await driver.output { $0.contains("successfully on port ") }
        let digits = announced.components(separatedBy: "successfully on port ").last?.prefix { $0.isNumber }
        guard let port = digits.flatMap({ Int($0) }) else {
            throw Failure(description: "chromedriver did not start: \(announced)")
        }
        return port
    }

    private static func path(of program: String) -> String? {
        (ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin").split(separator: ":")
            .map { "\($0)/\(program)" }.first { FileManager.default.isExecutableFile(atPath: $0) }
    }
}
