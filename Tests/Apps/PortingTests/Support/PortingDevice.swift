import Foundation
import HTTPTypes
import Latchkey
import LatchkeyLogin
import LatchkeyOAuth
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import Testing

/// A device with one store and the test's software TPM, and a server: a process of
/// latchkey-identity.
struct PortingDevice {
    static let pin = "2468"

    let server: IdentityProcess
    let directory: TemporaryDirectory
    let network = Network()

    /// - Parameter configuration: Members of the server's configuration.
    static func with(
        _ configuration: [String: any Sendable] = [:],
        _ body: @MainActor (PortingDevice) async throws -> Void
    ) async throws {
        try await IdentityProcess.with(configuration) { server in
            try await body(PortingDevice(server: server, directory: TemporaryDirectory()))
        }
    }

    /// The rows of a container, as a newly started program opens them.
    func records(_ name: String = "default") async throws -> RecordContainer {
        let store = try await RecordStore(directory: directory.path)
        return try RecordContainer(
            name: name, store: store,
            keystore: TPMKeystore(tcti: SoftwareTPM.current.tcti, anchors: store))
    }
}

/// The network between an app and its server.
final class Network: HTTPTransport {
    private let next = CurlTransport()
    private let state = Mutex((isDown: false, failingPath: String?.none, sent: [String]()))

    var isDown: Bool {
        get { state.withLock { $0.isDown } }
        set { state.withLock { $0.isDown = newValue } }
    }

    /// The path whose requests fail.
    var failingPath: String? {
        get { state.withLock { $0.failingPath } }
        set { state.withLock { $0.failingPath = newValue } }
    }

    /// The methods and paths of the requests so far.
    var sent: [String] { state.withLock { $0.sent } }

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (
        HTTPResponse, [UInt8]
    ) {
        let isDown = state.withLock { state in
            state.sent.append("\(request.method) \(request.path ?? "")")
            return state.isDown || state.failingPath == request.path
        }
        guard !isDown else {
            throw KeystoreError(
                operation: "reach the server", code: .unavailable, reason: "the network is down",
                recovery: "Connect to the network.")
        }
        return try await next.send(request, body: body)
    }
}

/// The user's browser. The user logs in on the page, or leaves it open.
actor UserBrowser: Browser {
    private let user: IdentityProcess.User
    private var leavesPageOpen = false
    /// The addresses of the login pages.
    private(set) var opened: [String] = []
    /// The page after the login.
    private(set) var page = ""

    init(_ user: IdentityProcess.User) { self.user = user }

    func leavePageOpen(_ leavesPageOpen: Bool) { self.leavesPageOpen = leavesPageOpen }

    func open(_ url: String) async throws {
        let browser = FormBrowser(user, transport: CurlTransport())
        try await browser.load(url)
        opened += await browser.loaded
        guard !leavesPageOpen else { return }
        try await browser.logIn()
        page = await browser.page
    }

    /// Starts a login, waits for the server's page for a user to whom this device does not belong,
    /// and cancels the login.
    func expectRefusal(of attempt: @escaping @Sendable () async throws -> Void) async throws {
        let task = Task { try await attempt() }
        #expect(await poll { page.contains("This device is set up for another account.") })
        task.cancel()
        await #expect(throws: login(.cancelled)) { try await task.value }
    }

    /// Opens the server's settings, logs in, and shows a page.
    ///
    /// - Parameter submitting: Whether to send the page's last form, which removes a device.
    func settings(_ path: String, at endpoint: String, submitting: Bool = false) async throws
        -> String
    {
        let browser = FormBrowser(user, transport: CurlTransport())
        try await browser.load("\(endpoint)/login")
        try await browser.logIn()
        try await browser.load("\(endpoint)\(path)")
        if submitting { try await browser.submit() }
        return await browser.page
    }
}

/// Waits on the main actor until a condition holds, within ``hangLimit``.
@MainActor func wait(until isTrue: () async throws -> Bool) async throws {
    let deadline = ContinuousClock.now + hangLimit
    while try await !isTrue() {
        try #require(ContinuousClock.now < deadline, "the condition was not met")
        try await Task.sleep(for: .milliseconds(5))
    }
}
