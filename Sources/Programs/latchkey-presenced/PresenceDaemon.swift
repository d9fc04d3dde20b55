import ArgumentParser
import Crypto
import Latchkey
import LatchkeyPlatform
import LatchkeyPresence
import LatchkeyServices
import LatchkeyTPM
import Logging

/// `latchkey-presenced`.
@main
struct PresenceDaemon: ServiceProgram {
    static let configuration = CommandConfiguration(
        commandName: "latchkey-presenced",
        abstract:
            "Verify fingerprints and sign approvals for the TPM: the system service org.latchkey.Presence1.",
        discussion: """
            LATCHKEY_TCTI names the TPM, STATE_DIRECTORY the state directory (systemd sets it), and \
            DBUS_SYSTEM_BUS_ADDRESS a bus other than the system bus.
            """,
        version: Release.version)

    @Option(
        help: ArgumentHelp(
            "The time limit of a fingerprint prompt, 1 to 25 seconds.", valueName: "seconds"))
    var timeLimit = 25

    @Option(
        help: ArgumentHelp("The directory where fprintd stores fingerprints.", valueName: "dir"))
    var prints = EnrolledPrints.defaultDirectory

    @Option(
        help: ArgumentHelp(
            "Multiply other time limits, for tests on a busy machine.", valueName: "factor",
            visibility: .hidden))
    var patience = 1

    @Flag(
        help:
            "Print the Name of the running service's approval key, 68 hexadecimal digits, for a server that lists it."
    )
    var printName = false

    func validate() throws {
        guard (1...25).contains(timeLimit) else {
            throw ValidationError("The time limit is 1 to 25 seconds.")
        }
        guard (1...100).contains(patience) else {
            throw ValidationError("The factor is 1 to 100.")
        }
    }

    var isVerbose: Bool { false }

    static func main() async { await runToEnd() }

    func serve(environment: [String: String], log: Logger) async throws {
        if printName {
            print(try await Self.approvalKeyName())
        } else {
            try await serveBus(environment: environment, log: log)
        }
    }

    /// The Name of the approval key of the running service: its hash algorithm, SHA-256, and the
    /// digest of its public area (TPM 2.0 Part 1 section 16).
    private static func approvalKeyName() async throws -> String {
        let publicArea = try await SystemPresenceBroker().terms(for: .pin).authority
        let algorithm = publicArea.dropFirst(2).prefix(2)
        guard algorithm.elementsEqual([0x00, 0x0b]) else {
            throw KeystoreError(
                operation: "print the Name of the approval key", code: .unsupported,
                reason: "the approval key's hash algorithm is not SHA-256",
                recovery:
                    "Install the same version of latchkey-presenced and of the running service.")
        }
        return (Array(algorithm) + SHA256.hash(data: publicArea)).map {
            ($0 < 16 ? "0" : "") + String($0, radix: 16)
        }
        .joined()
    }

    private func serveBus(environment: [String: String], log: Logger) async throws {
        let tcti = try ProgramSettings.tcti(environment["LATCHKEY_TCTI"], environment: [:])
        guard
            let directory = environment["STATE_DIRECTORY"]?.split(separator: ":").first.map(
                String.init)
        else {
            throw KeystoreError(
                operation: "start the presence broker", code: .unavailable,
                reason: "STATE_DIRECTORY is not set",
                recovery:
                    "Start it with systemd, or set a directory with mode 0700 that only its user can enter."
            )
        }
        // First, because a program that is started later must not get the descriptor.
        let socket = ListeningSocket.passedDescriptor().map(ListeningSocket.init(owning:))
        // Before any name is looked up.
        let (replacements, replacement) = AsyncStream.makeStream(of: Void.self)
        try AccountsWatch.watch { replacement.finish() }
        let authority = try await Self.authority(tcti, directory, log)
        let (ends, end) = AsyncStream.makeStream(of: Void.self)
        let bus = try await Bus.system { end.finish() }
        let service = PresenceService(
            bus: bus, authority: authority, prints: EnrolledPrints(directory: prints),
            timeLimit: .seconds(timeLimit), patience: patience, log: log)
        let door = try socket.map { (socket) throws(KeystoreError) in
            try SignInDoor(
                socket,
                SignInService(
                    bus: bus, authority: authority, presence: service, stateDirectory: directory,
                    patience: patience, log: log))
        }
        defer { withExtendedLifetime(door) {} }
        // The end of the bus or of the service, or a signal, ends both.
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                try await service.run { Bus.notifyReady() }
            }
            group.addTask {
                for await _ in ends {}
                // A failure, so that systemd starts the service again.
                if !Task.isCancelled { throw BusError.closed }
            }
            group.addTask {
                // The next client starts the service again, which then sees the new accounts.
                for await _ in replacements {}
                let isServed = await AccountsWatch.isServed {
                    guard await door?.isIdle != false else { return false }
                    return await service.isIdle
                }
                guard isServed else { return }
                log.notice("the accounts were changed; the service ends")
                // The answers leave.
                try? await bus.flush(within: .seconds(2))
            }
            if let failure = authority.failure {
                group.addTask {
                    // The TPM may return. The next client starts the service again.
                    try? await Task.sleep(for: Self.timeWithoutTPM)
                    if !Task.isCancelled { throw failure }
                }
            }
            while try await group.next() != nil { group.cancelAll() }
        }
    }

    private static let timeWithoutTPM: Duration = .seconds(120)

    /// Without the TPM, for example after it was cleared, each request on the bus gets the cause. The
    /// copies of keyrings' secrets under login passwords need no TPM.
    private static func authority(
        _ tcti: String, _ directory: String, _ log: Logger
    ) async throws(KeystoreError) -> ApprovalAuthority {
        do throws(KeystoreError) {
            return try await ApprovalAuthority(tcti: tcti, directory: directory)
        } catch {
            log.error(
                "the TPM cannot be used; only passwords open keyrings",
                metadata: ["reason": "\(error.reason)"])
            return try ApprovalAuthority(tcti: tcti, directory: directory, without: error)
        }
    }
}
