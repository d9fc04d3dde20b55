public import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeySimulators
import UnixSignals
public import VirtualSmartCard

@main
struct CardCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latchkey-card",
        abstract: "A virtual YubiKey (PIV) for development and tests.",
        discussion: """
            Connects to vsmartcard's driver vpcd, which presents the card to pcscd. Retries until the driver listens. \
            With --reader it starts a private pcscd with a reader name that Yubico's programs accept; this requires \
            root. Prints one line of JSON when it is ready: {"control":…,"firmware":…,"port":…,"serial":…}. Stops on \
            SIGTERM and SIGINT. The keys are in memory, without protection.

            Requests on the control socket, one per line, each answered by a line of JSON: touch auto|deny|wait; \
            press (touches the card while a key waits for it); eject; insert; fail SLOT STATUS (the next use of the \
            slot fails with this status word, both hexadecimal); status.

            PIN 123456, PUK 12345678, management key 0102030405060708, repeated to the key's length.
            """,
        version: Release.version)

    @Option(help: "The firmware version. Metadata requires 5.3. Since 5.7 the default management key is AES-192.")
    var firmware = Firmware(5, 4, 3)

    @Option(help: "The serial number.")
    var serial: UInt32 = 12_345_678

    @Option(help: "The type of the management key: tdes, aes128, aes192, aes256. Default: that of the firmware.")
    var managementKeyAlgorithm: ManagementKeyAlgorithm?

    @Option(help: "The port on 127.0.0.1 where vpcd listens. Default without --reader: 35963.")
    var port: UInt16?

    @Flag(help: "Start a private pcscd with a virtual reader.")
    var reader = false

    @Option(help: "The path of the control socket.")
    var control: String?

    @Option(help: "The reaction to a key that requires a touch: auto (touch), deny (refuse), wait (for press).")
    var touch = TouchMode.auto

    @Option(help: "The number of seconds that a key waits for a touch.")
    var touchTimeout = 15

    @Option(help: "The file to write the root certificate of the card's attestations to (PEM).")
    var attestationRoot: String?

    func validate() throws {
        guard !reader || port == nil else { throw ValidationError("--reader chooses the port itself.") }
        guard (1...3600).contains(touchTimeout) else {
            throw ValidationError("--touch-timeout must be 1 to 3600 seconds.")
        }
        if managementKeyAlgorithm ?? .tripleDES != .tripleDES, firmware < Firmware(5, 4, 2) {
            throw ValidationError("AES management keys require firmware 5.4.2 or newer.")
        }
    }

    func run() async throws {
        let signals = await UnixSignalsSequence(trapping: [.sigterm, .sigint])
        do {
            if reader {
                try await SmartCardReader.withRunning { reader in
                    try await serve(port: reader.ports[0], until: signals) {
                        guard await reader.waitUntil(slot: 0, hasCard: true) else {
                            throw CommandFailure("pcscd did not detect the card")
                        }
                    }
                }
            } else {
                try await serve(port: port ?? Self.driverPort, until: signals) {}
            }
        } catch {
            Output.write("latchkey-card: \(error)\n", to: .error)
            throw ExitCode(1)
        }
    }

    /// The port of vpcd in Debian's configuration.
    private static let driverPort: UInt16 = 35_963

    private func serve(
        port: UInt16, until signals: UnixSignalsSequence, whenReady: () async throws -> Void
    ) async throws {
        let authority = try AttestationAuthority()
        if let attestationRoot {
            try Data(authority.rootCertificatePEM.utf8).write(to: URL(filePath: attestationRoot), options: .atomic)
        }
        let profile = CardProfile(
            firmware: firmware, serialNumber: serial, managementKeyAlgorithm: managementKeyAlgorithm)
        let card = VirtualCard(
            PIVApplet(profile: profile, authority: authority), port: port, touchTimeout: .seconds(touchTimeout))
        card.touch = touch
        let socket = try control.map { path in try ControlSocket(path: path, card: card) }
        try await whenReady()
        let ready = ReadyLine(control: control, firmware: firmware.description, port: port, serial: serial)
        Output.write(try ready.text, to: .result)
        for await _ in signals { break }
        withExtendedLifetime((card, socket)) {}
    }
}

extension ManagementKeyAlgorithm: ExpressibleByArgument {
    public init?(argument: String) {
        switch argument {
        case "tdes": self = .tripleDES
        case "aes128": self = .aes128
        case "aes192": self = .aes192
        case "aes256": self = .aes256
        default: return nil
        }
    }

    public static var allValueStrings: [String] { ["tdes", "aes128", "aes192", "aes256"] }
}

extension Firmware: ExpressibleByArgument {}

extension TouchMode: ExpressibleByArgument {}
