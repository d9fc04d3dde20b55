import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyDesktop
import LatchkeyPlatform
import LatchkeyPresence
import LatchkeyServices

/// The user, the keyring and the service of a command of `latchkey desktop`.
struct DesktopSession: Sendable {
    let context: CommandContext
    let keyring: GnomeKeyring
    let wallet: KWallet
    let enrolment: KeyringEnrolment
    let input: DesktopInput
    private let place: UserPlace
    private let service: SignInSocket
    private let name: String
    private let thread = BlockingThread()

    /// - Throws: `CommonError`: `refused` for root, `unavailable` outside of a user's session.
    init(_ context: CommandContext) throws(CommonError) {
        self.context = context
        place = try UserPlace(environment: ProcessInfo.processInfo.environment)
        guard let entry = getpwuid(getuid()), let text = entry.pointee.pw_name else {
            throw CommonError(
                code: .unavailable, reason: "this process's user has no account",
                recovery: "Sign in as a user of this machine.")
        }
        name = String(cString: text)
        service = SignInSocket(user: getuid())
        keyring = GnomeKeyring(place)
        wallet = KWallet(place)
        enrolment = KeyringEnrolment(service: service, keyring: keyring)
        input = DesktopInput(pinSource: context.settings.pinSource)
    }

    /// Runs work that blocks on its own thread.
    func blocking<R: Sendable>(_ work: @escaping @Sendable () throws(CommonError) -> R)
        async throws(CommonError) -> R
    {
        try await thread.run(work)
    }

    func status() async throws(CommonError) -> SignInStatus {
        let service = service
        return try await blocking { () throws(CommonError) in try service.status() }
    }

    /// Refuses accounts whose home is encrypted with the password: a PIN cannot mount it.
    func checkAccount() throws(CommonError) {
        let marks = ["/var/lib/systemd/home/\(name).identity", "\(place.home)/.identity"]
        guard marks.contains(where: { access($0, F_OK) == 0 }) else { return }
        throw .unsupported(
            "systemd-homed encrypts your home with your password, so a PIN cannot open it",
            recovery: "Sign in with your password.")
    }

    /// What the PAM stack needs besides a PIN, as warnings.
    var stackWarnings: [String] {
        let modules = SignInStack().modulesNeedingPassword
        guard !modules.isEmpty else { return [] }
        return [
            "The sign-in uses \(modules.joined(separator: ", ")), which need the login password: after a PIN, what they "
                + "open stays closed."
        ]
    }

    /// Refuses while pam_kwallet5 would ask for the password again after a PIN.
    func checkWalletLines() throws(CommonError) {
        let lines = SignInStack().walletLines
        guard !lines.isEmpty else { return }
        let places = lines.map { "\($0.file) (\($0.type))" }.joined(separator: ", ")
        throw CommonError(
            code: .wrongState,
            reason: "pam_kwallet5 asks for the password again after a PIN: \(places)",
            recovery: "Remove these lines as root; pam_latchkey then opens the wallet for both.")
    }

    /// Checks the login password with the system's helper.
    func check(_ password: SecretBytes) async throws(CommonError) {
        let name = name
        let isRight = try await blocking { () throws(CommonError) in
            try AccountPassword.isRight(password, of: name, until: .now + .seconds(30))
        }
        guard isRight else {
            throw CommonError(
                code: .wrongProof, reason: "the login password is wrong",
                recovery: "Type the password with which you sign in.")
        }
    }

    /// Asks for the user's PIN.
    ///
    /// - Throws: `CommonError`: `passcodeNotSet` without a PIN in the TPM, `unsupported` for a PIN
    ///   that a sign-in would take as a password.
    func pin(_ status: SignInStatus) async throws(CommonError) -> PIN {
        guard status.hasPIN else {
            throw .noPIN
        }
        let pin = try await context.presence.givenPIN(
            PINRequest(purpose: .current, context: context.prompt("enable the sign-in")))
        let isPIN = pin.withUnsafeBytes { Self.isPIN($0) }
        guard isPIN else {
            throw .unsupported(
                "the PIN does not have \(SignInRequest.pinLengths.lowerBound) to \(SignInRequest.pinLengths.upperBound) digits, so a sign-in takes it as a password",
                recovery: "Change it: ‘latchkey pin change KEY’ with a key that has it.")
        }
        return pin
    }

    static func isPIN(_ bytes: UnsafeRawBufferPointer) -> Bool {
        SignInRequest.pinLengths.contains(bytes.count)
            && bytes.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }
}

extension SecretBytes {
    /// Whether a sign-in takes the text as a PIN.
    var isPIN: Bool { withUnsafeBytes { DesktopSession.isPIN($0) } }
}
