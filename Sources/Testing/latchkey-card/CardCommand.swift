public import ArgumentParser
import FoundationEssentials
import Glibc
import Latchkey
import LatchkeySimulators
import UnixSignals
public import VirtualSmartCard

@main
struct CardCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latchkey-card",
        abstract:
            "Start a virtual YubiKey (PIV) or another virtual card for development and tests.",
        discussion: """
            With --reader, the card is in the virtual reader of a private pcscd, under a name that Yubico's programs accept. \
            This requires root, pcscd and vsmartcard's driver vpcd. Without --reader, the card waits until a driver listens \
            on the port.

            Prints one line of JSON when it is ready: {"control":…,"firmware":…,"port":…,"profile":…,"serial":…}. Stops on \
            SIGTERM and SIGINT. The keys are in memory, without protection.

            PIN 123456, PUK 12345678, management key 0102030405060708, repeated to the key's length. The OpenPGP card's \
            PW1 is 123456, and its PW3 12345678.

            Requests on the control socket, one per line, each answered by a line of JSON: touch auto|deny|wait; \
            press (touches the card while a key waits for it); eject; insert; fail SLOT STATUS (the next use of the \
            slot fails with this status word, both hexadecimal); status.
            """,
        version: Release.version)

    @Flag(help: "Start a private pcscd with a virtual reader. Requires root.")
    var reader = false

    @Option(
        help: """
            The card: yubikey; third-party (a PIV card without attestation, with the slots 9a 9c 9d 9e 82 83); or \
            openpgp (an OpenPGP card with P-256 keys for signatures and authentication, for OpenSC).
            """)
    var profile = Profile.yubikey

    @Option(help: "The port on 127.0.0.1 where vpcd listens. Default without --reader: 35963.")
    var port: UInt16?

    @Option(help: "The path of the control socket.")
    var control: String?

    @Option(
        help:
            "The reaction to a key that requires a touch: auto (touch), deny (refuse), wait (for press)."
    )
    var touch = TouchMode.auto

    @Option(
        help:
            "The number of seconds that a key waits for a touch. Default: 15 on a YubiKey, 30 on other cards."
    )
    var touchTimeout: Int?

    @Option(
        help: """
            The firmware version of a YubiKey. Metadata requires 5.3. Since 5.7 the default management key is AES-192. \
            Default: 5.4.3.
            """)
    var firmware: Firmware?

    @Option(help: "The serial number.")
    var serial: UInt32 = 12_345_678

    @Option(
        help:
            "The type of a YubiKey's management key: tdes, aes128, aes192, aes256. Default: that of the firmware."
    )
    var managementKeyAlgorithm: ManagementKeyAlgorithm?

    @Option(help: "The file to write the root certificate of the card's attestations to (PEM).")
    var attestationRoot: String?

    func validate() throws {
        guard !reader || port == nil else {
            throw ValidationError(
                "--reader chooses the port. Omit --port, or start pcscd yourself and omit --reader."
            )
        }
        guard (1...3600).contains(touchTimeout ?? 1) else {
            throw ValidationError("--touch-timeout must be 1 to 3600 seconds.")
        }
        guard profile == .yubikey || firmware == nil && managementKeyAlgorithm == nil else {
            throw ValidationError(
                "Use --firmware and --management-key-algorithm only with --profile yubikey.")
        }
        if managementKeyAlgorithm ?? .tripleDES != .tripleDES,
            firmware ?? Self.usualFirmware < Firmware(5, 4, 2)
        {
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
                            throw KeystoreError(
                                operation: "insert the card", code: .unavailable,
                                reason: "pcscd did not detect it",
                                recovery: "Try again when the machine is less busy.")
                        }
                    }
                }
            } else {
                try await serve(port: port ?? Self.driverPort, until: signals) {}
            }
        } catch {
            let recovery = (error as? KeystoreError).map { " \($0.recovery)" } ?? ""
            let message = "latchkey-card: \(error)\(recovery)\n"
            _ = write(STDERR_FILENO, message, message.utf8.count)
            throw ExitCode(1)
        }
    }

    private static let usualFirmware = Firmware(5, 4, 3)

    private var card: CardProfile {
        switch profile {
        case .yubikey:
            CardProfile(
                firmware: firmware ?? Self.usualFirmware, serialNumber: serial,
                managementKeyAlgorithm: managementKeyAlgorithm)
        case .thirdParty: .thirdPartyPIV(serialNumber: serial)
        case .openPGP: .openPGP(serialNumber: serial)
        }
    }

    /// The port of vpcd in Debian's configuration.
    private static let driverPort: UInt16 = 35_963

    private func serve(
        port: UInt16, until signals: UnixSignalsSequence, whenReady: () async throws -> Void
    ) async throws {
        let authority = try AttestationAuthority()
        if let attestationRoot {
            try Data(authority.rootCertificatePEM.utf8).write(
                to: URL(filePath: attestationRoot), options: .atomic)
        }
        let card = VirtualCard(
            self.card.makeApplet(authority: authority), port: port,
            touchTimeout: touchTimeout.map { .seconds($0) })
        card.touch = touch
        let socket = try control.map { path in try ControlSocket(path: path, card: card) }
        try await whenReady()
        let ready = ReadyLine(
            control: control, firmware: card.profile.firmware.description, port: port,
            profile: profile.rawValue,
            serial: serial)
        print(try CanonicalJSON.text(ready))
        // A program may wait for the line at the other end of a pipe.
        fflush(nil)
        for await _ in signals { break }
        withExtendedLifetime((card, socket)) {}
    }
}

/// The line on standard output when the card is ready.
private struct ReadyLine: Encodable {
    let control: String?
    let firmware: String
    let port: UInt16
    let profile: String
    let serial: UInt32
}

/// The card that `--profile` names.
enum Profile: String, ExpressibleByArgument, CaseIterable {
    case yubikey
    case thirdParty = "third-party"
    case openPGP = "openpgp"
}

extension ManagementKeyAlgorithm: ExpressibleByArgument {
    private static let names: KeyValuePairs = [
        "tdes": tripleDES, "aes128": aes128, "aes192": aes192, "aes256": aes256,
    ]

    public init?(argument: String) {
        guard let algorithm = Self.names.first(where: { $0.key == argument })?.value else {
            return nil
        }
        self = algorithm
    }

    public static var allValueStrings: [String] { names.map(\.key) }
}

extension Firmware: ExpressibleByArgument {}

extension TouchMode: ExpressibleByArgument {}
