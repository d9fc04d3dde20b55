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
        guard let name = Account.name(of: getuid()) else {
            throw CommonError(
                code: .unavailable, reason: "this process's user has no account",
                recovery: "Sign in as a user of this machine.")
        }
        self.name = name
        service = SignInSocket(user: getuid()) {
            context.console.warn("Place your finger on the reader.")
        }
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

    /// Checks before the first question that the service has a keyring's secret.
    func checkRecord() async throws(CommonError) {
        guard let record = try await status().record else {
            throw .notFound(
                "Latchkey does not open your keyring",
                recovery:
                    "‘latchkey desktop enable’ enables it. To use a recovery text, add --restore.")
        }
        guard record.kind == .gnome else { throw KeyringEnrolment.otherKind(record.kind) }
    }

    /// Finds everything that keeps the sign-in from being enabled, before the first question, and
    /// warns of everything else.
    ///
    /// - Parameter choice: nil for the record's proof, or without one for the PIN if the user has one.
    /// - Returns: The state of the sign-in, and the proof to ask for.
    /// - Throws: `CommonError` with all obstacles.
    func preparation(for kind: KeyringKind, _ choice: ProofChoice?) async throws(CommonError)
        -> (status: SignInStatus, proof: ProofChoice)
    {
        var obstacles = account.map { [$0] } ?? []
        let findings = SignInDiagnostics().findings()
        for finding in findings {
            if finding.isObstacle(to: kind) {
                obstacles.append(finding.error)
            } else {
                context.console.warn("\(finding.sentence) \(finding.advice)")
            }
        }
        var found: SignInStatus?
        var proof = choice ?? .pin
        do throws(CommonError) { found = try await status() } catch {
            if !findings.contains(where: { $0.kind == .silentService }) { obstacles.append(error) }
        }
        if let found {
            if let record = found.record, record.kind != kind {
                obstacles.append(KeyringEnrolment.otherKind(record.kind))
            }
            let present: ProofChoice? =
                switch found.record?.seal {
                case .pin: .pin
                case .finger: .finger
                case .absent, nil: nil
                }
            proof = choice ?? present ?? (found.hasPIN ? .pin : .finger)
            if let present, present != proof { obstacles.append(Self.otherProof(present)) }
            let noFinger = proof == .finger ? await fingerObstacle : nil
            let isEither = choice == nil && present == nil
            if !found.hasPIN, proof == .pin || isEither && noFinger != nil {
                obstacles.append(.noPIN)
            }
            if let noFinger { obstacles.append(noFinger) }
        }
        obstacles += keyringObstacles(for: kind, isNew: found?.record == nil)
        guard let found, obstacles.isEmpty else { throw Self.joined(obstacles) }
        return (found, proof)
    }

    private var fingerObstacle: CommonError? {
        get async {
            let state = await context.presence.broker?.fingerState()
            guard state != .ready else { return nil }
            return CommonError(
                code: .notEnrolled,
                reason: state?.obstacle ?? "this program does not use the presence broker",
                recovery: "For the sign-in with a finger, enrol one with fprintd-enroll.")
        }
    }

    private static func otherProof(_ present: ProofChoice) -> CommonError {
        CommonError(
            code: .wrongState,
            reason: present == .finger
                ? "Latchkey signs you in with a finger alone"
                : "Latchkey signs you in with your PIN too",
            recovery: "Disable it first, then enable the other proof.")
    }

    /// A home that is encrypted with the password: a PIN cannot mount it.
    private var account: CommonError? {
        let marks = ["/var/lib/systemd/home/\(name).identity", "\(place.home)/.identity"]
        guard marks.contains(where: { access($0, F_OK) == 0 }) else { return nil }
        return .unsupported(
            "systemd-homed encrypts your home with your password, so a PIN cannot open it",
            recovery: "Sign in with your password.")
    }

    private func keyringObstacles(for kind: KeyringKind, isNew: Bool) -> [CommonError] {
        var obstacles: [CommonError] = []
        do throws(CommonError) {
            switch kind {
            case .gnome: try keyring.check()
            case .kwallet: _ = try wallet.salt()
            case .withoutKeyring: break
            }
        } catch {
            let hasOther = kind == .gnome && isNew && error.code == .notFound
            obstacles.append(
                hasOther
                    ? error.with(
                        recovery: error.recoveryAction.then(
                            "Or, for the sign-in alone, use --keyring none."))
                    : error)
        }
        if kind == .kwallet, KWallet.installedDaemon == nil {
            obstacles.append(
                .unsupported(
                    "there is no wallet daemon", recovery: "Install KDE's wallet daemon."))
        }
        return obstacles
    }

    /// One error, with a line for the reason and the next step of each.
    private static func joined(_ errors: [CommonError]) -> CommonError {
        guard errors.count > 1 else { return errors.first ?? SignInSocket.unexpected }
        let lines = errors.map { error in
            "\(error.reason.prefix(1).uppercased())\(error.reason.dropFirst()). \(error.advice)"
        }
        return CommonError(
            code: .wrongState, reason: "\(errors.count) conditions are not met",
            recovery: Recovery(lines.joined(separator: "\n")))
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

    /// Asks for the user's PIN. The service asks for a finger.
    ///
    /// - Throws: `CommonError`: `unsupported` for a PIN that a sign-in would take as a password.
    func proof(_ choice: ProofChoice) async throws(CommonError) -> SignInProof {
        guard choice == .pin else { return .finger }
        let pin = try await context.presence.givenPIN(
            PINRequest(purpose: .current, context: context.prompt("enable the sign-in")))
        let isPIN = pin.withUnsafeBytes { Self.isPIN($0) }
        guard isPIN else {
            throw .unsupported(
                "the PIN does not have \(SignInRequest.pinLengths.lowerBound) to \(SignInRequest.pinLengths.upperBound) digits, so a sign-in takes it as a password",
                recovery: "Change it: ‘latchkey pin change KEY’ with a key that has it.")
        }
        return .pin(pin)
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
