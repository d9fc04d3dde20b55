import ArgumentParser
import Crypto
import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPresence
import LatchkeyServices
import LatchkeyTPM
import Logging
import UnixSignals

/// `latchkey-presenced`.
@main
struct PresenceDaemon: AsyncParsableCommand {
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

    @Flag(
        help:
            "Print the Name of the running service's approval key, 68 hexadecimal digits, for a server that lists it."
    )
    var printName = false

    func validate() throws {
        guard (1...25).contains(timeLimit) else {
            throw ValidationError("The time limit is 1 to 25 seconds.")
        }
    }

    func run() async throws {
        ProcessMemory.protect()
        umask(0o077)
        let environment = ProcessInfo.processInfo.environment
        LoggingSystem.bootstrap { ServiceLog.handler(label: $0, environment: environment) }
        let log = Logger(label: "latchkey-presenced")
        do {
            if printName {
                print(try await Self.approvalKeyName())
            } else {
                try await serve(log, environment: environment)
            }
        } catch let error as KeystoreError {
            log.critical("\(error) \(error.recovery)")
            throw ExitCode(error.code == .unavailable ? 7 : 1)
        } catch let error as BusError {
            log.critical("Could not serve: \(error.message).")
            throw ExitCode(7)
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

    private func serve(_ log: Logger, environment: [String: String]) async throws {
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
        let authority = try await ApprovalAuthority(
            tcti: environment["LATCHKEY_TCTI"] ?? TPMKeystore.defaultTCTI, directory: directory)
        let (ends, end) = AsyncStream.makeStream(of: Void.self)
        let bus = try await Bus.system { end.finish() }
        let service = PresenceService(
            bus: bus, authority: authority, prints: EnrolledPrints(directory: prints),
            timeLimit: .seconds(timeLimit), log: log)
        // Trap signals before the service is ready: a signal that is not trapped ends the process
        // at once.
        let trapped = await UnixSignalsSequence(trapping: .sigterm, .sigint)
        let serving = Task {
            try await service.run { Bus.notifyReady() }
        }
        let signals = Task {
            for await _ in trapped { break }
            end.finish()
        }
        let failure = Task {
            // If the service fails to start, the wait below ends too.
            if case .failure(let error) = await serving.result {
                end.finish()
                throw error
            }
        }
        for await _ in ends {}
        signals.cancel()
        serving.cancel()
        try await failure.value
    }
}
