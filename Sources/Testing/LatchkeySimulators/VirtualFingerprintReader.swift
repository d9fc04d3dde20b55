internal import FoundationEssentials
internal import Glibc
public import Latchkey
internal import LatchkeyPlatform

/// A virtual fingerprint reader: the real `fprintd` with libfprint's virtual sensor and a polkit
/// that allows everything, on a private system bus.
///
/// ```swift
/// try await VirtualFingerprintReader.withRunning { reader in
///     try await reader.enroll(.rightIndex, as: "alice's", for: "alice")
///     … // start a verification with reader.environment
///     try await reader.present(.finger("alice's"))
/// }
/// ```
///
/// An image is any word, and equal words are the same finger. fprintd stores prints by user
/// **name**; the user need not exist.
public actor VirtualFingerprintReader {
    /// The address of fprintd's bus, also the value of `DBUS_SYSTEM_BUS_ADDRESS` for clients. Every
    /// user of the machine may connect, and other services may use the bus.
    public nonisolated let busAddress: String

    private let directory: TemporaryDirectory
    private let bus: MessageBus
    private var polkit: ChildProcess?
    private var daemon: ChildProcess?

    /// Starts the bus, polkit and fprintd.
    ///
    /// - Throws: `KeystoreError` with code `unavailable` if a program is not installed (Debian's
    ///   `dbus-daemon`, `fprintd`, `python3-dbusmock`, `libglib2.0-bin`) or does not answer within
    ///   five minutes.
    public init() async throws(KeystoreError) {
        directory = try TemporaryDirectory()
        guard directory.path(of: Self.socketName).utf8.count <= UNIXSocketAddress.maximumPathBytes
        else {
            throw .failed(
                .fingerprintReader,
                "the path of its socket would have more than \(UNIXSocketAddress.maximumPathBytes) bytes"
            )
        }
        try Self.prepare(directory)
        bus = try await MessageBus(in: directory)
        busAddress = bus.address
        try await startPolkit()
        try await start()
    }

    /// Runs `body` with a running reader, then ends the reader.
    public static func withRunning<R>(_ body: (VirtualFingerprintReader) async throws -> R)
        async throws -> R
    {
        let reader = try await VirtualFingerprintReader()
        return try await withTeardown({ await reader.end() }) { try await body(reader) }
    }

    /// The variables with which a program uses the reader's bus as the system bus.
    public nonisolated var environment: [String: String] { ["DBUS_SYSTEM_BUS_ADDRESS": busAddress] }

    /// The directory in which fprintd stores the prints.
    public nonisolated var printsDirectory: String { directory.path(of: "sensor") }

    /// The process IDs of the bus, polkit and fprintd, as far as they run.
    package var processIdentifiers: [Int32] {
        [bus.processIdentifier] + [polkit, daemon].compactMap { $0?.processIdentifier }
    }

    // MARK: Fingers

    /// Enrols a finger with as many swipes as fprintd requires.
    ///
    /// - Parameters:
    ///   - image: The finger's image, a word without spaces.
    ///   - user: The user's name.
    /// - Throws: `KeystoreError` with code `unavailable` if fprintd fails, with its message.
    public func enroll(
        _ finger: Finger = .rightIndex, as image: String, for user: String
    ) async throws(KeystoreError) {
        let swipes = Array(repeating: Touch.finger(image), count: Self.enrolmentSwipes)
        async let presented = take(swipes, within: hangLimit)
        let result = try await run("fprintd-enroll", "-f", finger.rawValue, user)
        guard result.isSuccess, result.text.contains("enroll-completed"), await presented else {
            throw .failed(.fingerprintReader, "the finger was not enrolled", text: result.text)
        }
    }

    /// Deletes one finger of `user`, or all of them.
    ///
    /// - Throws: `KeystoreError` with code `unavailable` if fprintd fails, with its message.
    public func delete(_ finger: Finger? = nil, of user: String) async throws(KeystoreError) {
        let result =
            if let finger {
                try await run("fprintd-delete", user, "-f", finger.rawValue)
            } else {
                try await run("fprintd-delete", user)
            }
        guard result.isSuccess else {
            throw .failed(.fingerprintReader, "nothing was deleted", text: result.text)
        }
    }

    /// Sends touches to the sensor in order, each when fprintd waits for a finger.
    ///
    /// - Throws: `KeystoreError` with code `unavailable` if fprintd does not wait for a finger
    ///   within `limit`.
    public func present(_ touches: Touch..., within limit: Duration = .seconds(300))
        async throws(KeystoreError)
    {
        guard await take(touches, within: limit) else {
            throw .failed(.fingerprintReader, "fprintd did not wait for a finger within \(limit)")
        }
    }

    // MARK: Faults

    /// Kills fprintd (SIGKILL), so that its bus name has no owner.
    public func stop() async {
        await daemon?.end()
        daemon = nil
    }

    /// Starts fprintd again with its stored fingers. Does nothing if it runs.
    ///
    /// - Throws: `KeystoreError` with code `unavailable` if it does not answer within five minutes.
    public func start() async throws(KeystoreError) {
        guard daemon?.isRunning != true else { return }
        let daemon = try await ChildProcess(
            "/usr/libexec/fprintd", arguments: ["--no-timeout"],
            environment: environment.merging([
                "STATE_DIRECTORY": directory.path(of: "sensor"),
                "FP_VIRTUAL_DEVICE": directory.path(of: Self.socketName),
            ]) { $1 })
        self.daemon = daemon
        try await bus.wait(for: Self.daemonName)
        try await succeed("fprintd lists no reader") { [bus] () throws(KeystoreError) in
            try await bus.call(
                "\(Self.daemonName).Manager.GetDefaultDevice",
                of: "/net/reactivated/Fprint/Manager",
                at: Self.daemonName)
        }
    }

    /// Makes polkit allow or refuse all requests of fprintd. At the start it allows them.
    package func authorize(_ isAllowed: Bool) async throws(KeystoreError) {
        try await succeed("polkit does not answer") { [bus] () throws(KeystoreError) in
            try await bus.call(
                "org.freedesktop.DBus.Mock.AllowUnknown",
                of: "/org/freedesktop/PolicyKit1/Authority",
                at: Self.polkitName, "\(isAllowed)")
        }
    }

    /// Ends fprintd, polkit and the bus, and waits for their exit.
    public func end() async {
        await stop()
        await polkit?.end()
        polkit = nil
        await bus.end()
    }

    // MARK: Parts

    /// The sensor's socket. It exists only while a client has claimed the sensor.
    private static let socketName = "sensor/device"
    private static let daemonName = "net.reactivated.Fprint"
    private static let polkitName = "org.freedesktop.PolicyKit1"
    /// The number of swipes for an enrolment (`nr_enroll_stages` of libfprint's driver
    /// virtual_device).
    private static let enrolmentSwipes = 5

    /// All users can reach the bus's socket; only the owner can reach the sensor and the prints.
    private static func prepare(_ directory: TemporaryDirectory) throws(KeystoreError) {
        guard mkdir(directory.path(of: "sensor"), 0o700) == 0, chmod(directory.path, 0o711) == 0
        else {
            throw .failed(
                .fingerprintReader, "its directory cannot be created",
                text: SystemError.last.description)
        }
    }

    private func startPolkit() async throws(KeystoreError) {
        polkit = try await ChildProcess(
            "/usr/bin/python3", arguments: ["-m", "dbusmock", "--system", "--template", "polkitd"],
            environment: environment)
        try await bus.wait(for: Self.polkitName)
        try await authorize(true)
    }

    private func run(_ program: String, _ arguments: String...) async throws(KeystoreError)
        -> HelperProgram.Result
    {
        try await HelperProgram.run(program, arguments, environment: environment)
    }

    /// Repeats a call until it succeeds, because a service owns its name before its objects exist.
    private func succeed(
        _ reason: String, _ call: () async throws(KeystoreError) -> HelperProgram.Result
    ) async throws(KeystoreError) {
        var output = ""
        let isDone = await poll {
            guard let result = try? await call() else { return false }
            output = result.text
            return result.isSuccess
        }
        guard isDone else { throw .failed(.fingerprintReader, reason, text: output) }
    }

    /// Sends each touch when fprintd waits for a finger. A client would miss a touch that comes
    /// before it knows that its verification has started.
    ///
    /// - Returns: false if the sensor did not accept all touches within `limit`.
    private func take(_ touches: [Touch], within limit: Duration) async -> Bool {
        let deadline = ContinuousClock.now + limit
        let socket = directory.path(of: Self.socketName)
        for touch in touches {
            let isTaken = await poll(for: deadline - ContinuousClock.now) { [bus] in
                // Each question to fprintd starts a program, so none is asked before a client has
                // claimed the sensor.
                guard FileManager.default.fileExists(atPath: socket) else { return false }
                let status = try? await bus.call(
                    "org.freedesktop.DBus.Properties.Get", of: "/net/reactivated/Fprint/Device/0",
                    at: Self.daemonName, "\(Self.daemonName).Device", "finger-needed")
                guard let status, status.text.contains("true") else { return false }
                // The sensor accepts one command per connection, and closes it when the command is
                // queued.
                return await UNIXSocket.deliver(
                    Array(touch.command.utf8), to: socket,
                    within: Int32(clamping: max(0, Int((deadline - .now) / .milliseconds(1)))))
            }
            guard isTaken else { return false }
        }
        return true
    }
}

extension VirtualFingerprintReader {
    /// A finger, by fprintd's name (net.reactivated.Fprint.Device, section Fingerprint names).
    public enum Finger: String, CaseIterable, Sendable {
        /// The left thumb.
        case leftThumb = "left-thumb"
        /// The left index finger.
        case leftIndex = "left-index-finger"
        /// The left middle finger.
        case leftMiddle = "left-middle-finger"
        /// The left ring finger.
        case leftRing = "left-ring-finger"
        /// The left little finger.
        case leftLittle = "left-little-finger"
        /// The right thumb.
        case rightThumb = "right-thumb"
        /// The right index finger.
        case rightIndex = "right-index-finger"
        /// The right middle finger.
        case rightMiddle = "right-middle-finger"
        /// The right ring finger.
        case rightRing = "right-ring-finger"
        /// The right little finger.
        case rightLittle = "right-little-finger"
    }
}

extension VirtualFingerprintReader {
    /// An event at the sensor.
    public enum Touch: Hashable, Sendable {
        /// A swipe of a finger with this image, a word without spaces.
        case finger(String)
        /// An unreadable swipe (`FP_DEVICE_RETRY_GENERAL`). The verification continues.
        case unreadable
        /// A swipe that is too short (`FP_DEVICE_RETRY_TOO_SHORT`). The verification continues.
        case tooShort
        /// A finger that is not centred (`FP_DEVICE_RETRY_CENTER_FINGER`). The verification
        /// continues.
        case offCentre
        /// A failure of the sensor (`FP_DEVICE_ERROR_GENERAL`). The verification ends.
        case failure
        /// The removal of the sensor.
        case unplugged

        /// The virtual sensor's command (libfprint, drivers/virtual-device.c).
        var command: String {
            switch self {
            case .finger(let image): "SCAN \(image)"
            case .unreadable: "RETRY 0"
            case .tooShort: "RETRY 1"
            case .offCentre: "RETRY 2"
            case .failure: "ERROR 0"
            case .unplugged: "UNPLUG"
            }
        }
    }
}
