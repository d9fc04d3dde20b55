internal import Dispatch
internal import FoundationEssentials
internal import Glibc
public import Latchkey

/// A private pcscd with one virtual reader of two slots, into which virtual cards are put.
///
/// For tests and development, as root: pcscd's socket has one fixed place, `/run/pcscd`, so a machine (or a mount
/// namespace) has one pcscd. Readers of other processes wait for each other; a pcscd that is not ours is left alone
/// and makes this one refuse.
///
/// The driver is `vpcd` of vsmartcard. It listens on the slots' ports on **every** address of the machine, and takes
/// the first connection for the card: nothing for a machine with neighbours that you don't trust.
public actor SmartCardReader {
    /// How the reader is called. Yubico's programs take readers that begin with "Yubico" only.
    public static let name = "Yubico YubiKey OTP+FIDO+CCID"
    /// How many cards it holds.
    public static let slotCount = 2

    /// Where a card for each slot connects to, on 127.0.0.1.
    public nonisolated let ports: [UInt16]

    private let directory: TemporaryDirectory
    private let lock: FileLock
    private var process: ChildProcess?

    /// Starts pcscd and waits until it shows the reader.
    ///
    /// It ends when the last reference goes; prefer ``withRunning(_:)``, which also waits for the end.
    ///
    /// - Throws: `KeystoreError` with code `unavailable` without root's rights, without pcscd or its driver, when
    ///   another pcscd runs, or when it does not show the reader within ten seconds.
    public init() async throws(KeystoreError) {
        guard geteuid() == 0 else {
            throw .readerFailed(
                "only root can make \(PCSCDaemon.socketPath)", recovery: "Run it as root, in a container for example.")
        }
        guard FileManager.default.fileExists(atPath: Self.driver) else {
            throw .readerFailed(
                "\(Self.driver) is not there", recovery: "Install the package vsmartcard-vpcd; scripts/setup does.")
        }
        mkdir(PCSCDaemon.directory, 0o755)
        lock = try await Self.takeTurn()
        guard !PCSCDaemon.isRunning else {
            throw .readerFailed("another pcscd runs", recovery: "Stop it: there can be one at a time.")
        }
        guard let port = LoopbackPorts.freePair() else {
            throw .readerFailed("no two free ports were found", recovery: "See what listens on so many ports here.")
        }
        ports = (0..<UInt16(Self.slotCount)).map { port + $0 }
        directory = try TemporaryDirectory()
        try Self.configure(directory, port: port)
        try await start()
    }

    /// Starts pcscd again after ``stop()``, with the same ports, and waits until it shows the reader.
    public func start() async throws(KeystoreError) {
        guard process == nil else { return }
        let process = try await ChildProcess(
            "pcscd", arguments: ["--foreground", "--critical", "--config", directory.path])
        self.process = process
        let names = (0..<Self.slotCount).map(Self.name(ofSlot:))
        guard await waitUntil({ readers in names.allSatisfy { name in readers.contains { $0.name == name } } }) else {
            self.process = nil
            let complaint = await process.end(by: .kill)
            throw .readerFailed(
                "pcscd did not show the reader", recovery: "See that pcscd works here.", text: complaint)
        }
    }

    /// Lends a running reader to `body` and ends it afterwards.
    public static func withRunning<R>(_ body: (SmartCardReader) async throws -> R) async throws -> R {
        let reader = try await SmartCardReader()
        do {
            let result = try await body(reader)
            await reader.stop()
            return result
        } catch {
            await reader.stop()
            throw error
        }
    }

    /// The name under which programs see a slot, the first of which is 0.
    public static func name(ofSlot slot: Int) -> String { "\(name) 00 0\(slot)" }

    /// Waits until pcscd has noticed that there is a card in the slot, or none any more. It looks every 0.4 seconds.
    ///
    /// - Returns: Whether that came true within ten seconds.
    public func waitUntil(slot: Int, hasCard: Bool) async -> Bool {
        let name = Self.name(ofSlot: slot)
        return await waitUntil { $0.contains { $0.name == name && $0.hasCard == hasCard } }
    }

    /// How often pcscd has noticed that a card came into the slot or went; nil when it does not answer.
    package func changes(slot: Int) async -> UInt32? {
        let name = Self.name(ofSlot: slot)
        return await Self.readers()?.first { $0.name == name }?.changes
    }

    /// Waits until pcscd has noticed that a card went. That a program failed to use the card says less: pcscd does not
    /// notice a card that comes back before pcscd has looked.
    ///
    /// - Parameter changes: ``changes(slot:)`` while the card was there.
    /// - Returns: Whether that came true within ten seconds.
    package func waitForRemoval(slot: Int, since changes: UInt32) async -> Bool {
        let name = Self.name(ofSlot: slot)
        return await waitUntil { $0.contains { $0.name == name && !$0.hasCard && $0.changes != changes } }
    }

    /// Whether pcscd is there.
    public var isRunning: Bool { process?.isRunning ?? false }

    /// Ends pcscd. The cards stay what they are.
    public func stop() async {
        guard let process else { return }
        self.process = nil
        await process.end(by: .terminate)
    }

    private static let driver = "/usr/lib/pcsc/drivers/serial/libifdvpcd.so"
    private static let patience = Duration.seconds(10)

    /// The lock lies beside the socket, so that it covers what the socket covers.
    private static func takeTurn() async throws(KeystoreError) -> FileLock {
        let deadline = ContinuousClock.now + .seconds(120)
        while ContinuousClock.now < deadline {
            if let lock = FileLock(path: "\(PCSCDaemon.directory)/latchkey.lock") { return lock }
            guard (try? await Task.sleep(for: .milliseconds(20))) != nil else { break }
        }
        throw .readerFailed(
            "another process has had its virtual reader for two minutes", recovery: "See what it is, and try again.")
    }

    /// Writes reader.conf(5).
    private static func configure(_ directory: TemporaryDirectory, port: UInt16) throws(KeystoreError) {
        let text = """
            FRIENDLYNAME "\(name)"
            DEVICENAME /dev/null:\(port)
            LIBPATH \(driver)
            CHANNELID \(port)

            """
        guard FileManager.default.createFile(atPath: directory.path(of: "vpcd"), contents: Data(text.utf8)) else {
            throw .readerFailed(
                "its configuration can't be written", recovery: "Set TMPDIR to a directory that you may write to.")
        }
    }

    private func waitUntil(_ isTrue: @escaping @Sendable ([PCSCDaemon.Reader]) -> Bool) async -> Bool {
        let deadline = ContinuousClock.now + Self.patience
        while ContinuousClock.now < deadline, isRunning {
            if let readers = await Self.readers(), isTrue(readers) { return true }
            guard (try? await Task.sleep(for: .milliseconds(5))) != nil else { return false }
        }
        return false
    }

    /// Asks pcscd on a thread that may block.
    private static func readers() async -> [PCSCDaemon.Reader]? {
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async { continuation.resume(returning: PCSCDaemon.readers()) }
        }
    }
}
