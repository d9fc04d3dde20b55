import Latchkey
import LatchkeyDesktop
import LatchkeyPlatform
import LatchkeyServices

/// Checks the sign-in to Linux with a PIN or finger: the PAM module and its profile, the service, and
/// lines of other modules that prompt again. Reads files, and connects to the service's socket.
struct SignInDiagnostics {
    private static let name = "sign-in"

    /// What is not as the sign-in needs it.
    struct Finding {
        enum Kind {
            /// The sign-in is not installed or off, as on most machines.
            case off
            /// The sign-in does not work.
            case obstacle
            case silentService
            /// pam_kwallet5 prompts after a PIN.
            case secondPrompt
            /// The sign-in works, and something else does not.
            case flaw
            /// What the sign-in changes for others.
            case note
        }

        let kind: Kind
        /// One clause.
        let reason: String
        /// Sentences.
        let advice: String

        var sentence: String { reason.prefix(1).uppercased() + reason.dropFirst() + "." }
        var error: CommonError {
            CommonError(code: .wrongState, reason: reason, recovery: advice)
        }

        /// Whether the sign-in of a user with such a keyring cannot be enabled.
        func isObstacle(to keyring: KeyringKind) -> Bool {
            switch kind {
            case .off, .obstacle, .silentService: true
            case .secondPrompt: keyring == .kwallet
            case .flaw, .note: false
            }
        }
    }

    var stack = SignInStack()
    var socket = SignInSocket.standardPath

    func check() -> Check {
        let findings = findings()
        let first = findings.first { $0.kind != .note }
        switch first?.kind {
        case nil, .note:
            let modules = authLines.map(\.module).joined(separator: ", ")
            let complete =
                "A PIN or finger can sign in. The modules of \(service) are, in order: \(modules)."
            return .ok(Self.name, ([complete] + findings.map(\.sentence)).joined(separator: " "))
        case .off: return .ok(Self.name, "\(first?.sentence ?? "") \(first?.advice ?? "")")
        case .obstacle, .silentService, .secondPrompt, .flaw:
            return .warning(Self.name, first?.sentence ?? "", advice: first?.advice ?? "")
        }
    }

    /// Everything that is not as the sign-in needs it, the most important first.
    func findings() -> [Finding] {
        profileFindings() + serviceFindings() + stackFindings()
    }

    private var service: String { stack.commonService ?? "" }

    private var authLines: [SignInStack.Line] {
        (stack.lines(of: service) ?? []).filter { $0.type == "auth" }
    }

    private func profileFindings() -> [Finding] {
        let own = authLines.filter(\.isOwn)
        guard stack.isInstalled() else {
            let isNamed = !own.isEmpty
            return [
                Finding(
                    kind: isNamed ? .obstacle : .off,
                    reason: isNamed
                        ? "the PAM stack names \(SignInStack.module), which is not installed; the sign-in skips it"
                        : "the sign-in with a PIN or finger is not installed",
                    advice: "The package libpam-latchkey installs it.")
            ]
        }
        // A line with ‘learn’ prompts for nothing: it gives the service the password.
        guard own.contains(where: { !$0.isLearning }) else {
            return [
                Finding(
                    kind: .off, reason: "the sign-in with a PIN or finger is off",
                    advice: "‘sudo pam-auth-update --enable latchkey latchkey-session’ turns it on."
                )
            ]
        }
        guard own.contains(where: \.isLearning) else {
            return [
                Finding(
                    kind: .obstacle,
                    reason:
                        "the stack \(service) has no line ‘\(SignInStack.module) learn’, so the login password cannot allow your PIN or finger",
                    advice:
                        "Turn on the profile that opens the keyring too: ‘sudo pam-auth-update --enable latchkey-session’."
                )
            ]
        }
        return []
    }

    private func serviceFindings() -> [Finding] {
        guard UNIXSocketAddress(path: socket)?.isServed != true else { return [] }
        return [
            Finding(
                kind: .silentService,
                reason: "the service of the sign-in does not answer, so only passwords sign in",
                advice:
                    "Start its socket: ‘sudo systemctl enable --now latchkey-login.socket’.")
        ]
    }

    private func stackFindings() -> [Finding] {
        let modules = authLines.map(\.module)
        guard let prompting = authLines.firstIndex(where: { $0.isOwn && !$0.isLearning }) else {
            return []
        }
        var found: [Finding] = []
        func add(_ reason: String, _ advice: String, _ kind: Finding.Kind = .flaw) {
            found.append(Finding(kind: kind, reason: reason, advice: advice))
        }
        if let password = modules.firstIndex(of: "pam_unix.so"), password < prompting {
            add(
                "the stack \(service) has pam_unix.so before \(SignInStack.module), so a PIN is first tried as a password",
                "Let the system write the file: ‘sudo pam-auth-update --force’.")
        }
        let wallet = stack.walletLines.map { "\($0.file) (\($0.type))" }
        if !wallet.isEmpty {
            add(
                "the module pam_kwallet5.so asks for the password again after a PIN: \(wallet.joined(separator: ", "))",
                "Remove these lines as root; \(SignInStack.module) opens the wallet.", .secondPrompt
            )
        }
        if stack.gdmUsesFprintd == true {
            add(
                "the fingers of GNOME's login use pam_fprintd.so, after which the keyring stays closed",
                "In /etc/pam.d/gdm-fingerprint, replace pam_fprintd.so by \(SignInStack.module) finger."
            )
        }
        let needing = stack.modulesNeedingPassword
        if !needing.isEmpty {
            add(
                "the modules \(needing.joined(separator: ", ")) need the login password, so what they open stays closed after a PIN",
                "Sign in with the password when you need it.")
        }
        if stack.isInstalled("pam_fprintd.so"), !modules.contains("pam_fprintd.so") {
            add(
                "the module pam_fprintd.so is installed and off, because its profile and this one exclude each other, so only users of ‘latchkey desktop enable’ sign in with a finger",
                "Other users sign in with the password.", .note)
        }
        return found
    }
}

extension SignInStack.Line {
    fileprivate var isOwn: Bool { module == SignInStack.module }
    fileprivate var isLearning: Bool { isOwn && arguments.contains("learn") }
}
