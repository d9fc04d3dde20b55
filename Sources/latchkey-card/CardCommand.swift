import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeySimulators
import UnixSignals
import VirtualSmartCard

@main
struct CardCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latchkey-card",
        abstract: "A virtual YubiKey (PIV) for development and tests.",
        discussion: """
            Connects to the driver vpcd of vsmartcard, which shows the card to pcscd, and keeps trying while there is \
            none. With --reader it brings its own pcscd, under the name that Yubico's programs want to see; that takes \
            root. Prints one line of JSON when it is ready: {"control":…,"firmware":…,"port":…,"serial":…}. Stops on \
            SIGTERM and on SIGINT. Its keys live in memory and protect nothing.

            Requests on the control socket, one on a line, each answered by a line of JSON: touch auto|deny|wait; \
            press (touches the key that waits); eject; insert; fail SLOT STATUS (the slot's next use fails with this \
            status word, both hexadecimal); status.

            PIN 123456, PUK 12345678, management key 0102030405060708 over and over.
            """,
        version: Release.version)

    @Option(help: "The firmware's version. Before 5.3 there is no metadata; from 5.7 on the management key is AES-192.")
    var firmware = Firmware(5, 4, 3)

    @Option(help: "The serial number.")
    var serial: UInt32 = 12_345_678

    @Option(help: "The kind of management key, where not the firmware's own: tdes, aes128, aes192, aes256.")
    var managementKeyAlgorithm: ManagementKeyAlgorithm?

    @Option(help: "The port on 127.0.0.1 where vpcd listens. 35963 without --reader.")
    var port: UInt16?

    @Flag(help: "Start a private pcscd with a virtual reader.")
    var reader = false

    @Option(help: "Where to open the control socket.")
    var control: String?

    @Option(help: "What happens when a key wants to be touched: auto (it is), deny (it is not), wait (for press).")
    var touch = TouchMode.auto

    @Option(help: "How many seconds a key waits to be touched.")
    var touchTimeout = 15

    @Option(help: "Where to write the certificate (PEM) that vouches for the card's attestations.")
    var attestationRoot: String?

    func validate() throws {
        guard !reader || port == nil else { throw ValidationError("--reader chooses the port itself.") }
        guard (1...3600).contains(touchTimeout) else {
            throw ValidationError("A touch is waited for from 1 to 3600 seconds.")
        }
        if managementKeyAlgorithm ?? .tripleDES != .tripleDES, firmware < Firmware(5, 4, 2) {
            throw ValidationError("AES management keys came with firmware 5.4.2.")
        }
    }

    func run() async throws {
        let signals = await UnixSignalsSequence(trapping: [.sigterm, .sigint])
        do {
            if reader {
                try await SmartCardReader.withRunning { reader in
                    try await serve(port: reader.ports[0], until: signals) {
                        guard await reader.waitUntil(slot: 0, hasCard: true) else {
                            throw CommandFailure("pcscd does not notice the card")
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

    /// Where vpcd listens as Debian configures it.
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
