public import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyJOSE
public import LatchkeyRelyingParty
import LatchkeyServices

extension AttestationCommand {
    /// `latchkey attestation verify`.
    struct Verify: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "verify",
            abstract:
                "Verify a key's attestation, as a server does. Reads the JSON from standard input.",
            discussion: """
                Reads the output of ‘latchkey key attest --json’ too. A TPM's statement needs a certificate of its attestation key: \
                name the server with --issuer when you attest the key. The directory has the subdirectories tpm, \
                piv, aik and simulated, each with roots and intermediates. TPM statements are verified up to aik or simulated: put \
                the certificate of the server's authority, the last of the member certificates, into aik/roots. Exits with 9 and the code of the refusal if the attestation does not meet the \
                requirement; --json then has the cause as the member detail. Compare the printed key with the key that you \
                register, and use each challenge once.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        @Option(help: ArgumentHelp("The directory of trust anchors.", valueName: "dir"))
        var anchors: String

        @Option(help: ArgumentHelp("The challenge, in base64url.", valueName: "base64url"))
        var challenge: String

        @Option(
            help: ArgumentHelp(
                "The server's origin, for a statement of the form webauthn.", valueName: "url"))
        var issuer: String?

        @Option(
            help: ArgumentHelp(
                "The key's ID, for a statement of the form webauthn.", valueName: "id")) var kid:
            String?

        @Option(help: "The requirement.") var require = AttestationRequirement.Level.hardware

        @Option(
            name: .customLong("approval-key"),
            help: ArgumentHelp(
                "The Name of a known presence broker's key. Can be repeated.", valueName: "name"))
        var approvalKeys: [String] = []

        @Option(
            help: ArgumentHelp(
                "The maximum seconds in which a finger can be reused.", valueName: "seconds"))
        var maximumReuse = 0

        @Flag(help: "Accept keys in simulators.") var acceptSimulated = false

        func validate() throws {
            guard let bytes = Base64URL.decode(challenge), (8...64).contains(bytes.count) else {
                throw ValidationError("A challenge is 8 to 64 bytes in base64url.")
            }
            guard (issuer == nil) == (kid == nil) else {
                throw ValidationError("--issuer and --kid belong together.")
            }
            guard approvalKeys.allSatisfy({ Self.name($0) != nil }) else {
                throw ValidationError("The Name of an approval key is 68 hexadecimal digits.")
            }
        }

        /// The JSON as in a request to a server. The output of `key attest --json` names the client
        /// data as the tool names its members.
        private static func request(_ json: Data) -> Data {
            guard var members = try? ReceivedJSON.decode([String: JSONValue].self, from: json),
                members["client_data"] == nil,
                let clientData = members.removeValue(forKey: "clientData")
            else { return json }
            members["client_data"] = clientData
            return (try? JSONEncoder().encode(members)) ?? json
        }

        func perform(in context: CommandContext) async throws -> VerdictReport {
            let json = Self.request(try await context.readSecret().withUnsafeBytes { Data($0) })
            let expectation = AttestationExpectation(
                challenge: Base64URL.decode(challenge) ?? Data(), binding: binding,
                requirement: AttestationRequirement(
                    require, maximumReuseSeconds: maximumReuse, acceptsSimulated: acceptSimulated))
            let anchors: AttestationAnchors
            do {
                anchors = try AttestationAnchors(directory: self.anchors)
                for skipped in anchors.skipped {
                    context.console.warn("\(printable("\(skipped)")) The others are used.")
                }
            } catch {
                throw KeystoreError.invalidInput("\(error.path): \(error.reason)")
            }
            let verifier = AttestationVerifier(
                anchors: anchors,
                approvalKeys: ListedApprovalKeys(Set(approvalKeys.compactMap(Self.name))))
            do {
                let statement = try AttestationStatement(json: json)
                guard let key = statement.claimedKey else {
                    throw AttestationError(.wrongKey, "the statement is not about a key on P-256")
                }
                return VerdictReport(
                    try await verifier.verify(statement, of: .es256(key), for: expectation))
            } catch let error as AttestationError {
                return VerdictReport(refusal: error)
            }
        }

        private var binding: AttestationExpectation.Binding {
            guard let issuer, let kid else { return .qualifyingData }
            return .webAuthn(
                rpID: URL(string: issuer)?.host() ?? "", origin: issuer,
                credentialID: Data(kid.utf8))
        }

        /// The 34 bytes of a Name.
        private static func name(_ text: String) -> Data? {
            let digits = Array(text.utf8)
            guard digits.count == 68 else { return nil }
            var bytes = Data()
            for index in stride(from: 0, to: 68, by: 2) {
                guard digits[index] != UInt8(ascii: "+"), digits[index] != UInt8(ascii: "-"),
                    let byte = UInt8(
                        String(decoding: digits[index...index + 1], as: UTF8.self), radix: 16)
                else { return nil }
                bytes.append(byte)
            }
            return bytes
        }
    }
}

/// The value of `--require`.
extension AttestationRequirement.Level: ExpressibleByArgument {}

/// A verdict, or the reason of the refusal.
struct VerdictReport: Report {
    let accepted: Bool
    /// The code of the refusal.
    let code: Nullable<String>
    /// The cause of the refusal, as a clause.
    let detail: Nullable<String>
    let hardware: Nullable<String>
    let isSimulated: Nullable<Bool>
    let presence: Nullable<String>
    let provesPIN: Nullable<String>
    let reuseSeconds: Nullable<Int>
    let diesWithFingers: Nullable<Bool>
    let publicKeyJWK: Nullable<JWK>
    /// The Names of all approval keys whose approval opens the key, in hexadecimal digits.
    let approvalKeys: Nullable<[String]>
    /// The serial number of the certificate of the attestation key or of slot F9, big-endian, in
    /// hexadecimal digits.
    let certificateSerial: Nullable<String>
    /// The key in PEM.
    private let publicKey: String

    private enum CodingKeys: CodingKey {
        case accepted, code, detail, hardware, isSimulated, presence, provesPIN, reuseSeconds,
            diesWithFingers, publicKeyJWK, approvalKeys, certificateSerial
    }

    init(_ verdict: AttestationVerdict) {
        accepted = true
        code = Nullable(nil)
        hardware = Nullable(Self.name(verdict.hardware))
        presence = Nullable(verdict.presence?.rawValue)
        provesPIN = Nullable(verdict.provesPIN.rawValue)
        reuseSeconds = Nullable(verdict.reuseSeconds)
        diesWithFingers = Nullable(verdict.diesWithFingers)
        publicKeyJWK = Nullable(JWK(verdict.publicKey))
        publicKey = verdict.publicKey.pemRepresentation
        detail = Nullable(nil)
        isSimulated = Nullable(verdict.isSimulated)
        approvalKeys = Nullable(verdict.approvalKeys.map(Self.hexadecimal))
        certificateSerial = Nullable(Self.hexadecimal(verdict.certificateSerial))
    }

    init(refusal: AttestationError) {
        accepted = false
        code = Nullable(refusal.code.rawValue)
        hardware = Nullable(nil)
        presence = Nullable(nil)
        provesPIN = Nullable(nil)
        reuseSeconds = Nullable(nil)
        diesWithFingers = Nullable(nil)
        publicKeyJWK = Nullable(nil)
        publicKey = ""
        detail = Nullable(refusal.detail)
        isSimulated = Nullable(nil)
        approvalKeys = Nullable(nil)
        certificateSerial = Nullable(nil)
    }

    var status: ExitStatus { accepted ? .done : .refused }

    private static func hexadecimal(_ bytes: Data) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    private static func name(_ hardware: AttestationVerdict.Hardware) -> String {
        switch hardware {
        case .tpm(let manufacturer, let model, let version):
            "tpm \(manufacturer) \(model) \(version)"
        case .yubiKey(let firmware, let serial):
            "yubikey \(firmware)\(serial.map { " \($0)" } ?? "")"
        case .simulated(let other): "simulated(\(name(other)))"
        }
    }

    var layout: Layout {
        guard accepted else {
            return Layout("Refused: \(code.value ?? ""): \(printable(detail.value ?? ""))")
        }
        let pin =
            provesPIN.value == "form"
            ? "the form of a PIN; whether it is empty or trivial is not known" : "none"
        return .fields(
            11,
            [
                ("Hardware", Layout.Cell(printable(hardware.value ?? ""))),
                ("Presence", Layout.Cell(presence.value ?? "approval by an unknown key")),
                ("PIN", Layout.Cell(pin)),
                ("Reuse", "\(reuseSeconds.value ?? 0) s"),
            ]
        ).then(.verbatim("Key:\n\(publicKey)"))
    }
}
