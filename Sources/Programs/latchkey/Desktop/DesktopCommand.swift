import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyDesktop
import LatchkeyJOSE
import LatchkeyServices

/// `latchkey desktop`.
struct DesktopCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "desktop",
        abstract: "Sign in with a PIN or finger, and open the desktop's keyring with it.",
        discussion: """
            The package libpam-latchkey signs in to Linux with the PIN or finger that the TPM checks. The keyring of GNOME \
            gets a random secret, which the TPM releases at the sign-in; a second copy is encrypted under your login \
            password. KWallet keeps your login password as its own. A machine without a keyring needs neither.

            ‘latchkey desktop recover’ prints a text that opens the keyring without Latchkey. Keep it in a safe place.
            """,
        subcommands: [Enable.self, Status.self, Disable.self, Recover.self])
}

/// The keyrings of `--keyring`.
enum KeyringChoice: String, ExpressibleByArgument, CaseIterable {
    case gnome
    case kwallet
    case withoutKeyring = "none"

    var kind: KeyringKind {
        switch self {
        case .gnome: .gnome
        case .kwallet: .kwallet
        case .withoutKeyring: .withoutKeyring
        }
    }
}

/// The proofs of `--proof`.
enum ProofChoice: String, ExpressibleByArgument, CaseIterable {
    case pin
    case finger

    var name: String { self == .pin ? "PIN" : "finger" }
}

extension DesktopCommand {
    /// `latchkey desktop enable`.
    struct Enable: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "enable",
            abstract: "Let your PIN or finger sign in, and the TPM keep the keyring's secret.",
            discussion: """
                First names everything that is missing, then asks for your login password and your PIN or finger. Without a \
                terminal, the first line of standard input is the login password. Run it in your desktop session; on a machine \
                without a keyring, in any session with --keyring none. After an interruption, run it again: it continues. The \
                PIN must have only digits, because a sign-in takes any other text as the password.

                Beside a PIN, a finger signs in too. Without a PIN in the TPM, or with --proof finger, it is a finger alone.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Option(help: "The keyring to open; none for the sign-in alone.")
        var keyring: KeyringChoice = .gnome
        @Option(help: "The proof; finger for a finger alone. By default the PIN, if you have one.")
        var proof: ProofChoice?

        var operation: String? { "enable the sign-in" }

        func perform(in context: CommandContext) async throws -> BriefReport {
            let session = try DesktopSession(context)
            let (status, choice) = try await session.preparation(for: keyring.kind, proof)
            if keyring == .gnome {
                context.console.say(
                    "The keyring's secret is kept on this computer only. A copy of your home on another computer needs the "
                        + "recovery text, which ‘latchkey desktop recover’ prints.")
            }
            let password = try await session.input.password()
            let proof = try await session.proof(choice)
            try await session.check(password)
            if password.isPIN {
                context.console.warn(
                    "Your login password has only digits, so each sign-in with it counts as a wrong PIN first. Choose "
                        + "another password.")
            }
            let (kind, enrolment, wallet) = (keyring.kind, session.enrolment, session.wallet)
            let seen = status.record
            let outcome = try await session.blocking { () throws(CommonError) in
                switch kind {
                case .gnome:
                    return try enrolment.enable(seen, password: password, proof: proof)
                case .kwallet:
                    let key = try KWallet.key(password: password, salt: try wallet.salt())
                    return try enrolment.enableWallet(
                        seen, key: key, password: password, proof: proof)
                case .withoutKeyring:
                    return try enrolment.enableWithoutKeyring(
                        seen, password: password, proof: proof)
                }
            }
            return BriefReport(
                ["enabled": .bool(true), "keyring": .string(kind.description)],
                text: Self.text(kind, choice, outcome, isAllowed: status.isAllowed))
        }

        private static func text(
            _ kind: KeyringKind, _ proof: ProofChoice, _ outcome: KeyringEnrolment.Outcome,
            isAllowed: Bool
        ) -> String {
            let first =
                switch outcome {
                case .done, .continued:
                    kind == .withoutKeyring
                        ? "The sign-in is enabled."
                        : "The keyring opens when you sign in with your \(proof.name) or password."
                case .unchanged: "It was enabled already."
                }
            var sentences = [first]
            if !isAllowed {
                sentences.append(
                    "Type your login password at the next sign-in or sudo; from then on, the \(proof.name) signs in."
                )
            }
            if kind == .gnome {
                sentences.append(
                    "‘latchkey desktop recover’ prints the text that opens the keyring without Latchkey."
                )
            }
            return sentences.joined(separator: " ")
        }
    }

    /// `latchkey desktop status`.
    struct Status: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "status",
            abstract: "Show whether the PIN signs in and opens the keyring. Does not prompt.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        var operation: String? { "read the state of the sign-in" }

        func perform(in context: CommandContext) async throws -> DesktopStatusReport {
            let session = try DesktopSession(context)
            return DesktopStatusReport(try await session.status(), file: session.keyring.file)
        }
    }

    /// `latchkey desktop disable`.
    struct Disable: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "disable",
            abstract:
                "End the sign-in with PIN and finger, and give the keyring back to the login password.",
            discussion: """
                Asks for your login password. After it has opened the keyring, deletes both copies of the secret, and ends the \
                sign-in with PIN and finger. After an interruption, run it again: it continues.

                As root, --user ends the sign-in of another user: the PIN and finger no longer sign in until the user runs \
                ‘latchkey desktop enable’ again. Of a user who has no account any more, it deletes the stored copies. With \
                --delete-copies it deletes them in any case, for example of a record that another program stored, and that the \
                login password does not open. At a terminal, that asks for confirmation; without a terminal, it requires --yes.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Option(
            help: ArgumentHelp(
                "End the sign-in of this user, a name or number. Needs root.", valueName: "user"))
        var user: String?
        @Flag(help: "With --user, delete the copies of the secret too.") var deleteCopies = false
        @Flag(help: Confirmation.help) var yes = false

        func validate() throws {
            guard user != nil || !deleteCopies else {
                throw ValidationError("--delete-copies needs --user.")
            }
        }

        var operation: String? {
            user == nil ? "disable the sign-in" : "end the sign-in of a user"
        }

        func perform(in context: CommandContext) async throws -> BriefReport {
            if let user {
                return try await DesktopAdministration.endSignIn(
                    of: user, deletesCopies: deleteCopies, isConfirmed: yes)
            }
            let session = try DesktopSession(context)
            guard let record = try await session.status().record else { throw Self.notEnabled }
            let password = try await session.input.password()
            try await session.check(password)
            let enrolment = session.enrolment
            _ = try await session.blocking { () throws(CommonError) in
                try enrolment.disable(password: password)
            }
            return BriefReport(
                ["enabled": .bool(false)],
                text: (record.kind == .withoutKeyring
                    ? "" : "Your login password opens the keyring again. ")
                    + "Both copies of the secret are deleted, and your PIN and finger no longer sign in."
            )
        }

        private static let notEnabled = CommonError.notFound(
            "Latchkey does not sign you in", recovery: "There is nothing to disable.")
    }

    /// `latchkey desktop recover`.
    struct Recover: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "recover",
            abstract:
                "Print the text that opens the keyring without Latchkey, or use it. JSON does not have it.",
            discussion: """
                The text is the keyring's secret, 64 digits, and a checksum after the hyphen. The desktop's prompt for the \
                keyring accepts the 64 digits. With --restore, reads a text and gives the keyring to your login password; \
                that needs neither the TPM nor the service. Without a terminal, the lines of standard input are the login \
                password, and with --restore the text.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Flag(help: "Read a text, and give the keyring to the login password.") var restore = false

        var operation: String? { restore ? "restore the keyring" : "print the recovery text" }

        func perform(in context: CommandContext) async throws -> BriefReport {
            let session = try DesktopSession(context)
            if restore { try session.keyring.check() } else { try await session.checkRecord() }
            let password = try await session.input.password()
            try await session.check(password)
            let enrolment = session.enrolment
            guard restore else {
                let text = try await session.blocking { () throws(CommonError) in
                    try enrolment.recoveryText(password: password)
                }
                return BriefReport(
                    ["keyring": .string(KeyringKind.gnome.description)], text: "",
                    secretOutput: text.line)
            }
            let text = try await session.input.recoveryText()
            try await session.blocking { () throws(CommonError) in
                try enrolment.recover(with: text, password: password)
            }
            return BriefReport(
                ["restored": .bool(true)],
                text:
                    "Your login password opens the keyring. ‘latchkey desktop enable’ lets the TPM open it again."
            )
        }
    }
}

extension SecretBytes {
    /// The text with the end of a line.
    fileprivate var line: SecretBytes {
        withUnsafeBytes { bytes in
            SecretBytes(count: bytes.count + 1) { target in
                target.copyMemory(from: bytes)
                target[bytes.count] = UInt8(ascii: "\n")
            }
        }
    }
}

struct DesktopStatusReport: Report {
    /// `none`, `pending` or `active`.
    let state: String
    /// `gnome`, `kwallet`, or `none` for a sign-in without a keyring.
    let keyring: Nullable<String>
    /// Whether the TPM has a copy of the secret that the present PIN opens, or a finger alone.
    let sealed: Bool
    /// Whether a finger alone signs in.
    let fingerAlone: Bool
    /// Whether the copy under the login password is `fresh`, `stale` or `absent`.
    let passwordCopy: String
    /// Whether the user has a PIN in the TPM.
    let pinSet: Bool
    /// Whether the PIN can sign in, or a finger alone.
    let signInAllowed: Bool
    /// `absent`, `encrypted`, `clear-text` or `unknown`.
    let loginKeyring: String

    init(_ status: SignInStatus, file: GnomeKeyring.File) {
        let record = status.record
        state = record?.state.rawValue ?? "none"
        keyring = Nullable(record?.kind.description)
        sealed = record?.isSealed ?? false
        fingerAlone = record?.seal == .finger
        passwordCopy = (record?.wrap ?? .absent).rawValue
        (pinSet, signInAllowed) = (status.hasPIN, status.isAllowed)
        loginKeyring =
            switch file {
            case .absent: "absent"
            case .encrypted: "encrypted"
            case .clearText: "clear-text"
            case .unknown: "unknown"
            }
    }

    var layout: Layout {
        let opened =
            switch state {
            case "none": "no"
            case "pending": "not complete; run ‘latchkey desktop enable’ again"
            default: "\(keyring.value ?? "")"
            }
        let copy =
            passwordCopy == "stale"
            ? "stale; run ‘latchkey desktop enable’ again" : passwordCopy
        let absent = "your PIN or finger does not open it; run ‘latchkey desktop enable’ again"
        let signIn =
            if signInAllowed {
                "yes"
            } else {
                // Without the TPM's copy, the login password allows nothing.
                sealed ? "after the next sign-in or sudo with your login password" : "no"
            }
        return Layout.fields(
            15,
            [
                ("Opens keyring", Layout.Cell(opened)),
                ("TPM's copy", state == "none" ? nil : Layout.Cell(sealed ? "present" : absent)),
                ("Password's copy", state == "none" ? nil : Layout.Cell(copy)),
                ("PIN", Layout.Cell(pinSet ? "set" : "not set")),
                (fingerAlone ? "Finger signs in" : "PIN signs in", Layout.Cell(signIn)),
                ("GNOME keyring", Layout.Cell(loginKeyring)),
            ])
    }
}
