internal import FoundationEssentials
internal import Glibc
package import Latchkey
internal import LatchkeyPlatform

/// A private pcscd with one virtual reader, which has two slots for virtual cards.
///
/// For tests and development. It needs root, because pcscd's socket has a fixed path in
/// `/run/pcscd`. A machine (or a mount namespace) has one pcscd: readers of several processes wait
/// for each other, and the initializer fails if another pcscd runs.
///
/// The driver is `vpcd` of vsmartcard. It listens on the slots' ports on **every** address of the
/// machine and accepts the first connection as the card. Do not use it in a network that you do not
/// trust.
package actor SmartCardReader {
    /// The name of the reader. Yubico's programs only use readers whose name begins with "Yubico".
    package static let name = "Yubico YubiKey OTP+FIDO+CCID"
    /// The number of slots.
    package static let slotCount = 2

    /// The TCP port on 127.0.0.1 for the card of each slot.
    package nonisolated let ports: [UInt16]

    private let directory: TemporaryDirectory
    private let lock: FileLock
    private var process: ChildProcess?

    /// Starts pcscd and waits until it lists the reader.
    ///
    /// pcscd ends when the last reference is released. Prefer ``withRunning(_:)``, which waits for
    /// the end.
    ///
    /// - Throws: `KeystoreError` with code `unavailable` without root, without pcscd or its driver,
    ///   if another pcscd runs, or if pcscd does not list the reader within five minutes.
    package init() async throws(KeystoreError) {
        guard geteuid() == 0 else {
            throw .failed(
                .cardReader, "only root can create \(PCSCDaemon.socketPath)",
                recovery: "Run as root, for example in a container.")
        }
        guard FileManager.default.fileExists(atPath: Self.driver) else {
            throw .failed(
                .cardReader, "\(Self.driver) is missing",
                recovery: "Install the package vsmartcard-vpcd, or run scripts/setup.")
        }
        mkdir(PCSCDaemon.directory, 0o755)
        lock = try await Self.takeTurn()
        guard !PCSCDaemon.isRunning else {
            throw .failed(
                .cardReader, "another pcscd is running",
                recovery: "Stop it: only one pcscd can run at a time.")
        }
        guard let port = freePortPair() else {
            throw .failed(
                .cardReader, "no two adjacent TCP ports are free",
                recovery: "Check which programs listen on the ports 20000 to 32000.")
        }
        ports = (0..<UInt16(Self.slotCount)).map { port + $0 }
        directory = try TemporaryDirectory()
        try Self.configure(directory, port: port)
        try await start()
    }

    /// Starts pcscd again after ``stop()``, with the same ports, and waits until it lists the
    /// reader.
    package func start() async throws(KeystoreError) {
        guard process == nil else { return }
        let process = try await ChildProcess(
            "pcscd", arguments: ["--foreground", "--critical", "--config", directory.path])
        self.process = process
        let names = (0..<Self.slotCount).map(Self.name(ofSlot:))
        guard
            await waitUntil({ readers in
                names.allSatisfy { name in readers.contains { $0.name == name } }
            })
        else {
            self.process = nil
            let output = await process.end()
            throw .failed(.cardReader, "pcscd did not list the reader", text: output)
        }
    }

    /// Runs `body` with a running reader, then stops the reader.
    package static func withRunning<R>(_ body: (SmartCardReader) async throws -> R) async throws
        -> R
    {
        let reader = try await SmartCardReader()
        return try await withTeardown({ await reader.stop() }) { try await body(reader) }
    }

    /// The name of a slot, numbered from 0.
    package static func name(ofSlot slot: Int) -> String { "\(name) 00 0\(slot)" }

    /// Waits until pcscd reports a card in the slot, or an empty slot. pcscd polls the slot every
    /// 0.4 seconds.
    ///
    /// - Returns: false after five minutes.
    package func waitUntil(slot: Int, hasCard: Bool) async -> Bool {
        let name = Self.name(ofSlot: slot)
        return await waitUntil { $0.contains { $0.name == name && $0.hasCard == hasCard } }
    }

    /// The number of insertions and removals that pcscd has seen in the slot; nil if pcscd has
    /// ended, or has not answered within five minutes.
    package func changes(slot: Int) async -> UInt32? {
        let name = Self.name(ofSlot: slot)
        var changes: UInt32?
        await poll {
            changes = await Self.readers()?.first { $0.name == name }?.changes
            return changes != nil || !isRunning
        }
        return changes
    }

    /// Waits until pcscd has seen the removal of a card. A program's failure to use the card is not
    /// enough, because pcscd misses a card that returns before the next poll.
    ///
    /// - Parameter changes: ``changes(slot:)`` before the removal.
    /// - Returns: false after five minutes.
    package func waitForRemoval(slot: Int, since changes: UInt32) async -> Bool {
        let name = Self.name(ofSlot: slot)
        return await waitUntil {
            $0.contains { $0.name == name && !$0.hasCard && $0.changes != changes }
        }
    }

    /// Whether pcscd runs.
    package var isRunning: Bool { process?.isRunning ?? false }

    /// Stops pcscd. The cards keep their state.
    package func stop() async {
        guard let process else { return }
        self.process = nil
        await process.end(gracefully: true)
    }

    private static let driver = "/usr/lib/pcsc/drivers/serial/libifdvpcd.so"

    /// The lock is in the directory of the socket, so that it applies to the same mount namespace.
    private static func takeTurn() async throws(KeystoreError) -> FileLock {
        var lock: FileLock?
        // Many tests may wait for the one socket, each for seconds.
        await poll(for: .seconds(900)) {
            lock = FileLock(path: "\(PCSCDaemon.directory)/latchkey.lock")
            return lock != nil
        }
        if let lock { return lock }
        throw .failed(
            .cardReader, "another process has used its virtual reader for 15 minutes",
            recovery: "Wait for that process to end, then try again.")
    }

    /// Writes reader.conf(5).
    private static func configure(_ directory: TemporaryDirectory, port: UInt16)
        throws(KeystoreError)
    {
        let text = """
            FRIENDLYNAME "\(name)"
            DEVICENAME /dev/null:\(port)
            LIBPATH \(driver)
            CHANNELID \(port)

            """
        guard
            FileManager.default.createFile(
                atPath: directory.path(of: "vpcd"), contents: Data(text.utf8))
        else {
            throw .failed(
                .cardReader, "its configuration cannot be written",
                recovery: "Set TMPDIR to a writable directory.")
        }
    }

    private func waitUntil(_ isTrue: @escaping @Sendable ([PCSCDaemon.Reader]) -> Bool) async
        -> Bool
    {
        var isDone = false
        await poll {
            isDone = await Self.readers().map(isTrue) ?? false
            return isDone || !isRunning
        }
        return isDone
    }

    private static func readers() async -> [PCSCDaemon.Reader]? {
        await BlockingThread().run { PCSCDaemon.readers() }
    }
}

/// A client for pcscd's list of readers (pcsc-lite, winscard_msg.h, protocol version 4.4).
enum PCSCDaemon {
    /// The directory of pcscd's state, fixed at its compilation.
    static let directory = "/run/pcscd"
    static let socketPath = "\(directory)/pcscd.comm"

    /// The state of a reader.
    struct Reader: Hashable {
        let name: String
        let hasCard: Bool
        /// The number of insertions and removals.
        let changes: UInt32
    }

    /// Whether a pcscd accepts connections.
    static var isRunning: Bool { UNIXSocket(path: socketPath) != nil }

    /// - Returns: nil if no pcscd answers within a second, or if its protocol version differs.
    static func readers() -> [Reader]? {
        guard
            let socket = UNIXSocket(path: socketPath),
            let version = socket.exchange(
                message(versionRequest, protocolVersion + word(0)), within: 1000),
            version.count == 12, version.suffix(4).allSatisfy({ $0 == 0 }),
            let states = socket.exchange(message(readersRequest, []), within: 1000),
            states.count == maximumReaders * stateLength
        else { return nil }
        return (0..<maximumReaders).compactMap {
            reader(states.dropFirst($0 * stateLength).prefix(stateLength))
        }
    }

    private static let versionRequest: UInt32 = 0x11
    private static let readersRequest: UInt32 = 0x12
    private static let protocolVersion = word(4) + word(4)
    /// PCSCLITE_MAX_READERS_CONTEXTS.
    private static let maximumReaders = 16
    /// The name in 128 bytes, three words with the state in the second, 33 bytes of ATR padded to
    /// 36, and its length in 8 bytes.
    private static let stateLength = 184
    private static let nameLength = 128
    private static let changesOffset = 128
    private static let stateOffset = 132
    /// SCARD_PRESENT.
    private static let presentBit: UInt8 = 0x04

    private static func reader(_ state: ArraySlice<UInt8>) -> Reader? {
        let name = state.prefix(nameLength).prefix { $0 != 0 }
        guard !name.isEmpty, let flags = state.dropFirst(stateOffset).first else { return nil }
        let changes = state.dropFirst(changesOffset).prefix(4).reversed().reduce(UInt32(0)) {
            $0 << 8 | UInt32($1)
        }
        return Reader(
            name: String(decoding: name, as: UTF8.self), hasCard: flags & presentBit != 0,
            changes: changes)
    }

    private static func message(_ command: UInt32, _ body: [UInt8]) -> [UInt8] {
        word(UInt32(body.count)) + word(command) + body
    }

    private static func word(_ value: UInt32) -> [UInt8] {
        withUnsafeBytes(of: value) { Array($0) }
    }
}

/// Finds two adjacent TCP ports that are free.
///
/// - Returns: The first of them, or nil after 64 attempts.
func freePortPair() -> UInt16? {
    func isFree(_ port: UInt16) -> Bool {
        let descriptor = socket(
            AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        return withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        } == 0
    }
    // Below the range that Linux uses for outgoing connections (ip_local_port_range, from 32768).
    return (0..<64).lazy.map { _ in UInt16.random(in: 20_000..<32_000) }.first {
        isFree($0) && isFree($0 + 1)
    }
}
