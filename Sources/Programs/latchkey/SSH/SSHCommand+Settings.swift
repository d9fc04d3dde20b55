import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeySSH
import LatchkeyServices

extension SSHCommand {
    /// `latchkey ssh restrict`.
    struct Restrict: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "restrict",
            abstract: "Set the servers and the kinds of data for which the agent signs with a key.",
            discussion: """
                Replaces all earlier settings. A rule has the form [SOURCE>][USER@]HOST, as in ‘ssh-add -h’: a login from \
                this machine to HOST, or through a forwarded agent on the server SOURCE. A through B needs two rules: \
                ‘B’ and ‘B>A’. The command reads the host keys from known_hosts and stores their fingerprints. HOST can be \
                '[HOST]:PORT' for another port than 22, or a fingerprint (SHA256:…). A key with rules signs logins of OpenSSH 8.9 and newer only, no files.

                Without options, the key signs logins to all servers, files and git commits, and refuses forwarded \
                connections.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: KeyIDArgument.help, completion: NameCompletion.keys)
        var key: KeyIDArgument

        @Option(
            name: .customLong("host"), help: ArgumentHelp("A permitted login.", valueName: "rule"))
        var hosts: [String] = []

        @Flag(help: "Accept requests from servers to which ssh forwards the agent (ssh -A).")
        var allowForwarding =
            false

        @Flag(
            help: """
                Sign data that is neither a login nor a file signature, such as random data for ‘ssh-add -T’. The prompt \
                cannot name the use.
                """)
        var signAnything = false

        @Option(
            help: ArgumentHelp(
                "A known_hosts file instead of those of OpenSSH.", valueName: "file"),
            completion: .file())
        var knownHosts: String?

        var operation: String? { "restrict an SSH key" }

        func perform(in context: CommandContext) async throws -> SSHKeyReport {
            let records = try await context.sshRecords()
            let found = try await records.sshKey(key)
            let home = ProcessInfo.processInfo.environment["HOME"]
            let known = KnownHosts(
                files: knownHosts.map { [$0] } ?? KnownHosts.defaultFiles(home: home))
            let rules = try hosts.map { try DestinationRule($0).destination(known) }
            let prompt = context.prompt("restrict the SSH key ‘\(found.name)’")
            var entry = try await records.verifiedSSHKey(
                found.key.id, for: prompt, authorizedBy: context.presence)
            entry.settings.destinations = rules
            entry.settings.allowsForwarding = allowForwarding
            entry.settings.signsAnything = signAnything
            return SSHKeyReport(
                try await records.store(entry, for: prompt, authorizedBy: context.presence))
        }
    }

    /// `latchkey ssh certificate`.
    struct Certificate: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "certificate",
            abstract: "Store the certificate of a key, which the agent then offers too.",
            discussion: """
                ‘ssh-keygen -s CA -I NAME -n USER key.pub’ creates it from the exported key. The server checks the \
                certificate; this command only checks that it is for the key.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: KeyIDArgument.help, completion: NameCompletion.keys)
        var key: KeyIDArgument

        @Argument(
            help: ArgumentHelp("The certificate; - for standard input.", valueName: "file"),
            completion: .file())
        var file: String?

        @Flag(help: "Remove the stored certificate.") var remove = false

        func validate() throws {
            guard (file == nil) == remove else {
                throw ValidationError("Give ‘<file>’ or ‘--remove’.")
            }
        }

        var operation: String? { "store the certificate" }

        func perform(in context: CommandContext) async throws -> SSHKeyReport {
            let records = try await context.sshRecords()
            let found = try await records.sshKey(key)
            let prompt = context.prompt("change the certificate of the SSH key ‘\(found.name)’")
            let certificate: SSHCertificate? =
                if let file { try await Self.certificate(in: file, for: found, context) } else {
                    nil
                }
            var entry = try await records.verifiedSSHKey(
                found.key.id, for: prompt, authorizedBy: context.presence)
            entry.certificate = certificate
            switch certificate?.validity {
            case .expired:
                context.console.say(
                    "Warning: the certificate has expired, so servers refuse it. Have the authority sign a new one."
                )
            case .notYet:
                context.console.say(
                    "Warning: the certificate is not yet valid, so servers refuse it now. ‘latchkey ssh list’ shows its first day."
                )
            case .valid, nil: break
            }
            return SSHKeyReport(
                try await records.store(entry, for: prompt, authorizedBy: context.presence))
        }

        private static func certificate(
            in file: String, for entry: SSHKeyRecord, _ context: CommandContext
        ) async throws -> SSHCertificate {
            let advice = "Name the file that ‘ssh-keygen -s’ wrote, such as key-cert.pub."
            let text =
                file == "-"
                ? try await context.readSecret().withUnsafeBytes {
                    String(decoding: $0, as: UTF8.self)
                }
                : try Self.text(of: file)
            let certificate: SSHCertificate
            do {
                certificate = try SSHCertificate(file: text)
            } catch {
                throw KeystoreError(code: .invalidInput, reason: "\(error)", recovery: advice)
            }
            guard certificate.publicKey == entry.publicKey.blob else {
                throw KeystoreError(
                    code: .invalidInput, reason: "the certificate is for another key",
                    recovery: "Sign the key that ‘latchkey ssh export \(entry.key.id)’ prints.")
            }
            return certificate
        }

        private static func text(of file: String) throws -> String {
            guard let bytes = FileManager.default.contents(atPath: file) else {
                throw KeystoreError(
                    code: .invalidInput, reason: "the file \(file) cannot be read",
                    recovery: "Check the path.")
            }
            return String(decoding: bytes, as: UTF8.self)
        }
    }
}

/// A rule of `--host`: `[SOURCE>][USER@]HOST`.
struct DestinationRule {
    private let source: String?
    private let user: String?
    private let host: String

    /// - Throws: ``KeystoreError`` with code `invalidInput`.
    init(_ text: String) throws(KeystoreError) {
        let steps = text.split(separator: ">", omittingEmptySubsequences: false)
        guard steps.count <= 2, let last = steps.last else { throw Self.invalid(text) }
        let parts = last.split(separator: "@", maxSplits: 1, omittingEmptySubsequences: false)
        source = steps.count == 2 ? String(steps[0]) : nil
        user = parts.count == 2 ? String(parts[0]) : nil
        host = String(parts[parts.count - 1])
        guard ![source, user, host].contains(""), source?.contains("@") != true else {
            throw Self.invalid(text)
        }
    }

    func destination(_ known: KnownHosts) throws(KeystoreError) -> SSHDestination {
        SSHDestination(
            source: try source.map { name throws(KeystoreError) in try Self.hop(name, known) },
            destination: try Self.hop(host, known), user: user)
    }

    private static func hop(_ name: String, _ known: KnownHosts) throws(KeystoreError)
        -> SSHDestination.Hop
    {
        let isFingerprint = name.hasPrefix("SHA256:")
        guard !isFingerprint || name.utf8.count == 50 else { throw invalid(name) }
        let fingerprints = isFingerprint ? [name] : known.fingerprints(of: name)
        guard !fingerprints.isEmpty else {
            throw KeystoreError(
                code: .notFound, reason: "known_hosts has no key of the host ‘\(name)’",
                recovery:
                    "Log in to it once, or give the fingerprint of its host key, as SHA256:…. A server with another port than 22 is '[HOST]:PORT'."
            )
        }
        return SSHDestination.Hop(name: name, fingerprints: fingerprints)
    }

    private static func invalid(_ text: String) -> KeystoreError {
        KeystoreError(
            code: .invalidInput, reason: "‘\(text)’ is not a rule of the form [SOURCE>][USER@]HOST",
            recovery:
                "Examples: git.example.org, ada@shell.example.org, 'shell.example.org>git.example.org'."
        )
    }
}
