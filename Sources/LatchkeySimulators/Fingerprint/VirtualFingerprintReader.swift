internal import FoundationEssentials
internal import Glibc
public import Latchkey

/// A fingerprint reader without hardware: the real `fprintd` with libfprint's virtual sensor, on a system bus of its
/// own, and a polkit that allows everything.
///
/// ```swift
/// try await VirtualFingerprintReader.withRunning { reader in
///     try await reader.enroll(.rightIndex, as: "alice's", for: "alice")
///     … // start a verification with reader.environment
///     try await reader.present(.finger("alice's"))
/// }
/// ```
///
/// An image is any word: two presentations of the same word are the same finger. fprintd keeps prints by user **name**,
/// which need not exist on the machine.
public actor VirtualFingerprintReader {
    /// The system bus on which fprintd serves: what a client sets `DBUS_SYSTEM_BUS_ADDRESS` to, or opens itself. Every
    /// user of the machine may connect, and other services may be put on it.
    public nonisolated let busAddress: String

    private let directory: TemporaryDirectory
    private let bus: MessageBus
    private var polkit: ChildProcess?
    private var daemon: ChildProcess?

    /// Starts the bus and what serves on it.
    ///
    /// - Throws: `KeystoreError` with code `unavailable` when a program is not installed (Debian's `dbus-daemon`,
    ///   `fprintd`, `python3-dbusmock`, `libglib2.0-bin`) or does not answer within thirty seconds.
    public init() async throws(KeystoreError) {
        directory = try TemporaryDirectory()
        guard directory.path(of: Self.socketName).utf8.count <= UNIXSocket.maximumPathBytes else {
            throw .fingerprintReaderFailed(
                "the path of its socket would have more than \(UNIXSocket.maximumPathBytes) bytes")
        }
        try Self.prepare(directory)
        bus = try await MessageBus(in: directory)
        busAddress = bus.address
        try await startPolkit()
        try await start()
    }

    /// Lends a running reader to `body` and ends it afterwards.
    public static func withRunning<R>(_ body: (VirtualFingerprintReader) async throws -> R) async throws -> R {
        let reader = try await VirtualFingerprintReader()
        do {
            let result = try await body(reader)
            await reader.end()
            return result
        } catch {
            await reader.end()
            throw error
        }
    }

    /// The environment in which a program takes the reader's bus for the machine's.
    public nonisolated var environment: [String: String] { ["DBUS_SYSTEM_BUS_ADDRESS": busAddress] }

    /// Where fprintd keeps the prints.
    public nonisolated var printsDirectory: String { directory.path(of: "sensor") }

    /// The processes that there are: the bus, polkit, fprintd.
    public var processIdentifiers: [Int32] {
        [bus.processIdentifier] + [polkit, daemon].compactMap { $0?.processIdentifier }
    }

    // MARK: Fingers

    /// Enrols a finger, as a person does who swipes it until fprintd has seen enough.
    ///
    /// - Parameters:
    ///   - image: What the finger looks like to the sensor, a word without blanks.
    ///   - user: A user's name.
    /// - Throws: `KeystoreError` with code `unavailable` when fprintd refuses, with its words.
    public func enroll(
        _ finger: Finger = .rightIndex, as image: String, for user: String
    ) async throws(KeystoreError) {
        let swipes = Array(repeating: Touch.finger(image), count: Self.enrolmentSwipes)
        async let presented = take(swipes, within: .seconds(30))
        let result = try await run("fprintd-enroll", "-f", finger.rawValue, user)
        guard result.isSuccess, result.text.contains("enroll-completed"), await presented else {
            throw .fingerprintReaderFailed("the finger was not enrolled", text: result.text)
        }
    }

    /// Deletes all fingers of `user`, or one.
    ///
    /// - Throws: `KeystoreError` with code `unavailable` when fprintd refuses, with its words.
    public func delete(_ finger: Finger? = nil, of user: String) async throws(KeystoreError) {
        let result =
            if let finger {
                try await run("fprintd-delete", user, "-f", finger.rawValue)
            } else {
                try await run("fprintd-delete", user)
            }
        guard result.isSuccess else { throw .fingerprintReaderFailed("nothing was deleted", text: result.text) }
    }

    /// Does these things at the sensor, one after the other.
    ///
    /// Each waits until fprintd asks for a finger.
    ///
    /// - Throws: `KeystoreError` with code `unavailable` when nobody asks for a finger within `limit`.
    public func present(_ touches: Touch..., within limit: Duration = .seconds(30)) async throws(KeystoreError) {
        guard await take(touches, within: limit) else {
            throw .fingerprintReaderFailed("nobody asked for a finger within \(limit)")
        }
    }

    // MARK: Faults

    /// Ends fprintd without a word (SIGKILL): from now on nobody owns its name on the bus.
    public func stop() async {
        await daemon?.end(by: .kill)
        daemon = nil
    }

    /// Starts fprintd again with the fingers that it had. Does nothing when it runs.
    ///
    /// - Throws: `KeystoreError` with code `unavailable` when it does not answer within thirty seconds.
    public func start() async throws(KeystoreError) {
        guard daemon?.isRunning != true else { return }
        let daemon = try await ChildProcess(
            "/usr/libexec/fprintd", arguments: ["--no-timeout"],
            environment: environment.merging([
                "STATE_DIRECTORY": directory.path(of: "sensor"),
                "FP_VIRTUAL_DEVICE": directory.path(of: Self.socketName),
            ]) { $1 })
        self.daemon = daemon
        try await bus.wait(for: Self.daemonName, within: .seconds(30))
        try await succeed("fprintd shows no reader", within: .seconds(30)) { [bus] () throws(KeystoreError) in
            try await bus.call(
                "\(Self.daemonName).Manager.GetDefaultDevice", of: "/net/reactivated/Fprint/Manager",
                at: Self.daemonName, within: .seconds(5))
        }
    }

    /// Lets polkit allow or refuse everything that fprintd asks it. At first it allows.
    public func authorize(_ isAllowed: Bool) async throws(KeystoreError) {
        try await succeed("polkit does not answer", within: .seconds(30)) { [bus] () throws(KeystoreError) in
            try await bus.call(
                "org.freedesktop.DBus.Mock.AllowUnknown", of: "/org/freedesktop/PolicyKit1/Authority",
                at: Self.polkitName, "\(isAllowed)", within: .seconds(5))
        }
    }

    /// Ends everything and returns when it is gone.
    public func end() async {
        await stop()
        await polkit?.end(by: .kill)
        polkit = nil
        await bus.end()
    }

    // MARK: Parts

    /// The sensor's socket. It exists only while a client has claimed the sensor.
    private static let socketName = "sensor/device"
    private static let daemonName = "net.reactivated.Fprint"
    private static let polkitName = "org.freedesktop.PolicyKit1"
    /// How many swipes libfprint's virtual sensor asks for (`nr_enroll_stages` of its driver virtual_device).
    private static let enrolmentSwipes = 5

    /// The bus's socket is for everybody; the sensor, the prints and everything else only for who made them.
    private static func prepare(_ directory: TemporaryDirectory) throws(KeystoreError) {
        guard mkdir(directory.path(of: "sensor"), 0o700) == 0, chmod(directory.path, 0o711) == 0 else {
            throw .fingerprintReaderFailed("its directory can't be made", text: String(cString: strerror(errno)))
        }
    }

    private func startPolkit() async throws(KeystoreError) {
        polkit = try await ChildProcess(
            "/usr/bin/python3", arguments: ["-m", "dbusmock", "--system", "--template", "polkitd"],
            environment: environment)
        try await bus.wait(for: Self.polkitName, within: .seconds(30))
        try await authorize(true)
    }

    private func run(_ program: String, _ arguments: String...) async throws(KeystoreError) -> HelperProgram.Result {
        try await HelperProgram.run(program, arguments, environment: environment, within: .seconds(20))
    }

    /// Repeats a call until it succeeds: a name is owned a moment before its objects are there.
    private func succeed(
        _ reason: String, within limit: Duration, _ call: () async throws(KeystoreError) -> HelperProgram.Result
    ) async throws(KeystoreError) {
        var complaint = ""
        let isDone = await Patience.until(limit) {
            guard let result = try? await call() else { return false }
            complaint = result.text
            return result.isSuccess
        }
        guard isDone else { throw .fingerprintReaderFailed(reason, text: complaint) }
    }

    /// Waits for each touch until fprintd asks for a finger, as a person does. What comes before a client has learnt
    /// that its verification began would be lost on the client.
    ///
    /// - Returns: false when the sensor did not take them all within `limit`.
    private func take(_ touches: [Touch], within limit: Duration) async -> Bool {
        let deadline = ContinuousClock.now + limit
        for touch in touches {
            let isTaken = await Patience.until(deadline - ContinuousClock.now) { [bus, directory] in
                let status = try? await bus.call(
                    "org.freedesktop.DBus.Properties.Get", of: "/net/reactivated/Fprint/Device/0",
                    at: Self.daemonName, "\(Self.daemonName).Device", "finger-needed", within: .seconds(5))
                guard let status, status.text.contains("true") else { return false }
                // One command per connection; the sensor hangs up when it has queued it.
                return await UNIXSocket.deliver(
                    Array(touch.command.utf8), to: directory.path(of: Self.socketName), within: 1000)
            }
            guard isTaken else { return false }
        }
        return true
    }
}
