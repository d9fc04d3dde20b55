import Latchkey
import LatchkeyDesktop
import LatchkeyPlatform
import LatchkeyServices

/// Checks the sign-in to Linux with a PIN or finger: the PAM module and its profile, the service, and
/// lines of other modules that prompt again. Reads files, and connects to the service's socket.
struct SignInDiagnostics {
    private static let name = "sign-in"

    var stack = SignInStack()
    var socket = SignInSocket.standardPath

    func check() -> Check {
        let service = stack.commonService
        let lines = (service.flatMap(stack.lines(of:)) ?? []).filter { $0.type == "auth" }
        let modules = lines.map(\.module)
        let own = lines.filter(\.isOwn)
        guard stack.hasModule else {
            guard !own.isEmpty else {
                return .ok(
                    Self.name,
                    "The sign-in with a PIN or finger is not installed (package libpam-latchkey).")
            }
            return warning(
                "The PAM stack names \(SignInStack.module), which is not installed; the sign-in skips it.",
                "Install the package libpam-latchkey, or run: sudo pam-auth-update")
        }
        // A line with ‘learn’ prompts for nothing: it gives the service the password.
        guard let prompting = lines.firstIndex(where: { $0.isOwn && !$0.isLearning }) else {
            return .ok(
                Self.name,
                "The sign-in with a PIN or finger is off. ‘sudo pam-auth-update’ turns it on.")
        }
        guard own.contains(where: \.isLearning) else {
            return warning(
                "\(service ?? "") has no line ‘\(SignInStack.module) learn’, so the login password cannot allow your PIN or finger.",
                "Turn on the profile that opens the keyring too: sudo pam-auth-update --enable latchkey-session"
            )
        }
        guard UNIXSocketAddress(path: socket)?.isServed == true else {
            return warning(
                "The service of the sign-in does not answer, so only passwords sign in.",
                "Start its socket: sudo systemctl enable --now latchkey-login.socket")
        }
        if let password = modules.firstIndex(of: "pam_unix.so"), password < prompting {
            return warning(
                "\(service ?? "") has pam_unix.so before \(SignInStack.module), so a PIN is first tried as a password.",
                "Let the system write the file: sudo pam-auth-update --force")
        }
        if let line = stack.walletLines.first {
            return warning(
                "\(line.file) has pam_kwallet5.so, which asks for the password again after a PIN.",
                "Remove its lines of the types auth and session; pam_latchkey.so opens the wallet.")
        }
        if stack.gdmUsesFprintd == true {
            return warning(
                "The fingers of GNOME's login use pam_fprintd.so, after which the keyring stays closed.",
                "In /etc/pam.d/gdm-fingerprint, replace pam_fprintd.so by \(SignInStack.module) finger."
            )
        }
        let needing = stack.modulesNeedingPassword
        guard needing.isEmpty else {
            return warning(
                "\(needing.joined(separator: ", ")) need the login password, so what they open stays closed after a PIN.",
                "Sign in with the password when you need it.")
        }
        return .ok(
            Self.name,
            "A PIN or finger can sign in. The modules of \(service ?? "") are, in order: \(modules.joined(separator: ", "))."
        )
    }

    private func warning(_ finding: String, _ advice: String) -> Check {
        .warning(Self.name, finding, advice: advice)
    }
}

extension SignInStack.Line {
    fileprivate var isOwn: Bool { module == SignInStack.module }
    fileprivate var isLearning: Bool { isOwn && arguments.contains("learn") }
}
