import ArgumentParser
import Latchkey
import LatchkeyServices

extension PasskeyCommand {
    /// `latchkey passkey serve`. Runs `latchkey-passkeys`, a smaller program that uses less memory
    /// than this one.
    struct Serve: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "serve",
            abstract: "Present this user's passkeys to browsers and SSH, until it is stopped.",
            discussion: """
                Runs latchkey-passkeys, as the user service latchkey-passkeys.service does in each graphical session. It \
                connects to the relay latchkey-uhid, and prompts with pinentry and the fingerprint reader. \
                PINENTRY_PROGRAM names another pinentry program.
                """)

        @OptionGroup(title: GlobalOptions.title) var options: GlobalOptions

        @Option(
            help: """
                The user verification that the hardware requires for new passkeys. (default: user-presence if your \
                fingerprint can be checked here, otherwise pin)
                """)
        var policy: VerifyingPolicy?

        @Option(
            help: ArgumentHelp(
                "Use another relay, a socket of your own processes, for tests.", valueName: "socket"
            ))
        var relay: String?

        func run() async throws {
            throw SiblingProgram.replaceThisProcess(
                with: "latchkey-passkeys", serviceArguments, package: "latchkey-passkeys"
            )
            .during("serve passkeys")
        }

        /// The options of the service. The other options concern servers and output, which the
        /// service does not use.
        private var serviceArguments: [String] {
            let names = [
                "container", "store", "tcti", "token", "token-login", "token-isolation",
                "pin-source",
            ]
            let program = options.program
            var values: [(String, String?)] = names.map { ($0, program.values[$0] ?? nil) }
            values += [
                ("presence", program.presence?.rawValue), ("policy", policy?.policy.description),
                ("relay", relay),
            ]
            return values.compactMap { name, value in value.map { "--\(name)=\($0)" } }
                + (program.allowShortPin ? ["--allow-short-pin"] : [])
                + (program.verbose ? ["--verbose"] : [])
        }
    }
}
