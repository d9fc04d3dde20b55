internal import FoundationEssentials
package import Latchkey

/// Initializes a token and administers its PINs.
///
/// All calls run on the token's thread with a deadline, and end a login that a ``PKCS11Keystore``
/// on the token may have kept, which then prompts for the PIN again.
///
/// Each method prompts the presence authority for PINs in the documented order. If the token itself
/// prompts, on a PIN pad or fingerprint sensor, the authority is notified.
package struct TokenAdministrator: Sendable {
    package let uri: TokenURI
    private let options: PKCS11Options
    private let container: String
    let presence: any PresenceAuthority

    /// Does not load the module yet.
    ///
    /// - Parameters:
    ///   - uri: The token; a key in the URI is ignored.
    ///   - container: The name in prompts.
    ///   - presence: Prompts for the PINs.
    package init(
        _ uri: TokenURI, options: PKCS11Options = PKCS11Options(), container: String = "default",
        presence: any PresenceAuthority
    ) {
        self.uri = uri
        self.options = options
        self.container = container
        self.presence = presence
    }

    /// Erases the token and sets its label and the PINs of its security officer and its user.
    ///
    /// Prompts for the security officer's PIN (the current one if the token is initialized or has a
    /// factory PIN, else a new one), then for the user's new PIN. If the URI matches several tokens
    /// and one of them is not initialized, chooses that one.
    ///
    /// - Parameters:
    ///   - label: 1 to 32 bytes of UTF-8.
    ///   - isErasing: Whether an initialized token may be erased with all its keys.
    /// - Returns: The token's new information; its serial number may have changed.
    /// - Throws: `KeystoreError`; `conflict` for an initialized token that may not be erased,
    ///   `wrongProof`, `unsupported`.
    package func initialize(label: String, erasing isErasing: Bool = false)
        async throws(KeystoreError)
        -> TokenInformation
    {
        do throws(KeystoreError) {
            guard label.isName(maximumBytes: 32) else {
                throw .invalidInput(
                    "a label has 1 to 32 bytes in Unicode normalization form C, and no control or invisible character"
                )
            }
            let entry = try await blankEntry()
            // The erasure would delete the certificates and passwords of a browser.
            guard !entry.information.isNSS else { throw KeystoreError(.filesOfNSS) }
            guard entry.profile.family != .ykcs11 else {
                throw .unsupported(
                    "a YubiKey is always initialized; it can only be reset",
                    recovery:
                        "Run `ykman piv reset`, which erases all its PIV keys, and change its PINs."
                )
            }
            guard entry.profile.family != .opensc || !entry.information.isEmulated else {
                throw .unsupported(
                    "OpenSC can't initialize or erase this card",
                    recovery:
                        "Reset it with its own program (YubiKey: `ykman piv reset` or `ykman openpgp reset`; OpenPGP card: "
                        + "`factory-reset` in `gpg --card-edit`), which erases all its keys.")
            }
            let isUsed = entry.information.flags.contains(.initialized)
            guard !isUsed || isErasing else {
                throw .conflict(
                    "the token is already initialized, with the label ‘\(entry.information.label)’",
                    recovery: Recovery("Permit to delete everything on it.", .eraseToken))
            }
            let hasFactoryPIN = entry.information.flags.contains(.securityOfficerPINToBeChanged)
            let officer = try await proof(
                isUsed || hasFactoryPIN ? .securityOfficer : .new, of: entry,
                to: isUsed
                    ? "erase the token"
                    : hasFactoryPIN
                        ? "initialize the token (the factory PIN if it was never changed)"
                        : "set the security officer's PIN")
            let user = try await newProof(for: entry, to: "set the token's PIN")
            try await erase(entry, label: label, securityOfficer: officer)
            let erased = try await initializedEntry(label: label, before: entry)
            try await administer(erased, as: .securityOfficer, officer) {
                (session) throws(CryptokiError) in
                try session.initializePIN(user)
            }
            presence.accepted()
            return try await initializedEntry(label: label, before: erased).information
        } catch {
            throw error.during("initialize the token")
        }
    }
}

extension TokenAdministrator {
    /// The one token that matches the URI; an uninitialized slot only if nothing else matches.
    /// Opens no session.
    func entry() async throws(KeystoreError) -> TokenDirectory.Entry {
        try only(await entries().preferringInitialized)
    }

    private func entries() async throws(KeystoreError) -> [TokenDirectory.Entry] {
        let directory = await TokenDirectory.read(uri, options: options.token)
        if directory.tokens.isEmpty, let failure = directory.failures.first {
            throw KeystoreError(failure.error)
        }
        return directory.tokens
    }

    /// The one token that matches the URI, or among several the uninitialized one.
    private func blankEntry() async throws(KeystoreError) -> TokenDirectory.Entry {
        let fitting = try await entries()
        let blank = fitting.filter { !$0.information.flags.contains(.initialized) }
        return try only(blank.count == 1 ? blank : fitting.preferringInitialized)
    }

    /// The token after its initialization, which may change its serial number and slot.
    private func initializedEntry(
        label: String, before: TokenDirectory.Entry
    ) async throws(KeystoreError) -> TokenDirectory.Entry {
        let directory = await TokenDirectory.read(
            configured: false, paths: [before.modulePath], options: options.token)
        let named = directory.tokens.filter {
            $0.information.label == label && $0.information.flags.contains(.initialized)
                && $0.information.model == before.information.model
        }
        let same = named.filter { $0.information.serial == before.information.serial }
        let found =
            same.isEmpty
            ? named.filter { !$0.information.flags.contains(.userPINInitialized) } : same
        guard !found.isEmpty else {
            throw KeystoreError(
                code: .failed,
                reason: "the token was erased, and its module shows no token with the new label",
                recovery: Recovery(
                    "If the token keeps its old label, set its PIN as the security officer.",
                    .initializeTokenPIN))
        }
        return try only(found)
    }

    private func only(
        _ entries: [TokenDirectory.Entry]
    ) throws(KeystoreError) -> TokenDirectory.Entry {
        guard let entry = entries.first else {
            throw KeystoreError(CryptokiError(.tokenAbsent, reason: "no token matches \(uri)"))
        }
        guard entries.count == 1 else {
            throw KeystoreError(.ambiguous(entries.map { ($0.information, $0.modulePath) }))
        }
        return entry
    }

    /// Erases the token. It must not have changed since `entry` was read.
    private func erase(
        _ entry: TokenDirectory.Entry, label: String, securityOfficer proof: LoginProof
    ) async throws(KeystoreError) {
        do throws(CryptokiError) {
            let module = try await Module.load(entry.modulePath, options: options.token)
            // Several blank tokens may have the same identity, so a blank token is not shared.
            let token =
                entry.information.flags.contains(.initialized)
                ? try await Token.find(entry.uri, options: options.token)
                : Token(
                    module: module, information: entry.information,
                    identity: TokenIdentity(entry.information, in: module.profile), uri: entry.uri,
                    options: options.token)
            // All sessions end before C_InitToken, even if it then fails. libp11 would keep using
            // its closed session.
            defer { LibP11Context.abandon(token) }
            try await token.initialize(
                expecting: entry.information, label: label, securityOfficer: proof)
        } catch {
            throw KeystoreError(error, profile: entry.profile, checking: .securityOfficerPIN)
        }
    }

    /// Prompts for a PIN, or tells the user to use the reader if the token itself prompts.
    ///
    /// - Parameter reason: The operation in the prompt.
    func proof(
        _ purpose: PINRequest.Purpose, of entry: TokenDirectory.Entry, to reason: String
    ) async throws(KeystoreError) -> LoginProof {
        let status: PINStatus? =
            switch purpose {
            case .current: try await self.status(of: entry, isPrecise: false)
            case .securityOfficer:
                PINStatus(
                    attemptsLeft: entry.information.officerAttemptsLeft, attemptLimit: nil,
                    isLockedOut: false)
            case .unblocking:
                await PINStatus(
                    attemptsLeft: cardStatus(of: entry)?.pukAttemptsLeft, attemptLimit: nil,
                    isLockedOut: false)
            case .new, .lockoutPassword: nil
            }
        return try await profile(of: entry).proof(
            purpose, for: PromptContext(reason: reason, container: container), status, presence)
    }

    /// Prompts for a new PIN and checks its length.
    func newProof(
        of role: LoginRole = .user, for entry: TokenDirectory.Entry, to reason: String
    ) async throws(KeystoreError) -> LoginProof {
        let proof = try await proof(.new, of: entry, to: reason)
        if case .pin(let pin) = proof { try profile(of: entry).checkNew(pin, of: role) }
        return proof
    }

    /// - Parameter isPrecise: Whether to ask a card even if no wrong PIN is known.
    private func status(of entry: TokenDirectory.Entry, isPrecise: Bool) async throws(KeystoreError)
        -> PINStatus
    {
        do throws(CryptokiError) {
            return try await Token.find(entry.uri, options: options.token).pinStatus(
                entry.information, profile(of: entry).pinCounter, isPrecise: isPrecise)
        } catch {
            throw KeystoreError(error, profile: entry.profile)
        }
    }

    private func profile(of entry: TokenDirectory.Entry) -> TokenProfile {
        TokenProfile(entry.profile, information: entry.information, options: options)
    }

    /// Logs in, runs `body`, which sets the PIN that the user gave last, and logs out.
    func administer(
        _ entry: TokenDirectory.Entry, as role: LoginRole, _ proof: LoginProof,
        _ body: @escaping @Sendable (Session) throws(CryptokiError) -> Void
    ) async throws(KeystoreError) {
        try await administer(entry, as: role) { (token) throws(CryptokiError) in
            try await token.withLogin(role, proof, body)
        }
    }

    /// Runs `body`, which logs in and sets the PIN that the user gave last.
    func administer(
        _ entry: TokenDirectory.Entry, as role: LoginRole,
        _ body: (Token) async throws(CryptokiError) -> Void
    ) async throws(KeystoreError) {
        do {
            try await body(Token.find(entry.uri, options: options.token))
        } catch {
            presence.rejected()
            if role == .user, error.function == "C_Login", error.returnValue == .pinIncorrect,
                let entry = try? await self.entry(),
                let status = try? await status(of: entry, isPrecise: true),
                !status.isLockedOut
            {
                throw .wrongPIN(status, underlying: error)
            }
            let left =
                role == .securityOfficer
                ? try? await self.entry().information.officerAttemptsLeft : nil
            throw .newPINRefused(error)
                ?? KeystoreError(
                    error, profile: entry.profile,
                    checking: role == .user ? .pin : .officer(entry.profile, nil)
                ).counting(left)
        }
    }

    /// The state of a PIV card; nil if it can't be asked.
    func cardStatus(of entry: TokenDirectory.Entry) async -> PIVCardStatus? {
        await (try? Token.find(entry.uri, options: options.token))?.pivCardStatus()
    }

    /// Runs `body` in the token's session without a login.
    ///
    /// - Parameter secret: What `body` lets the token check, if anything.
    func inspect(
        _ entry: TokenDirectory.Entry, checking secret: TokenSecret = .pin,
        _ body: @escaping @Sendable (Session, LoginReuse) throws(CryptokiError) -> Void
    ) async throws(KeystoreError) {
        do {
            let token = try await Token.find(entry.uri, options: options.token)
            try await token.withSession { [login = token.login] (session) throws(CryptokiError) in
                try body(session, login)
            }
        } catch {
            presence.rejected()
            throw KeystoreError(error, profile: entry.profile, checking: secret)
        }
    }
}

extension TokenDirectory.Entry {
    /// The profile of the token's module.
    var profile: ModuleProfile { ModuleProfile(for: module) }
}
