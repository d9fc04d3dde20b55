internal import FoundationEssentials
package import Latchkey

/// Sets a token up and administers its PINs: what its owner does, as opposed to what programs do with its keys.
///
/// All of it is done on the token's own thread, under a deadline, and ends the login that a ``PKCS11Keystore`` on the token
/// may have kept, so that it asks for the PIN again when it is used next.
///
/// Every PIN comes from the presence authority, in the order in which each method names them. Where the token has a PIN
/// pad or finger sensor of its own it asks there, and the authority is told so.
package struct TokenAdministrator: Sendable {
    /// Which token.
    package let uri: TokenURI
    let options: PKCS11Options
    let container: String
    let presence: any PresenceAuthority

    /// Reaches for nothing yet.
    ///
    /// - Parameters:
    ///   - uri: What it says of a key does not count.
    ///   - container: What prompts name.
    ///   - presence: Who asks for the PINs.
    package init(
        _ uri: TokenURI, options: PKCS11Options = PKCS11Options(), container: String = "default",
        presence: any PresenceAuthority
    ) {
        self.uri = uri
        self.options = options
        self.container = container
        self.presence = presence
    }

    /// What the token says of itself now.
    ///
    /// - Throws: `KeystoreError`; `unavailable` when it is not there, `conflict` when the URI fits several.
    package func information() async throws(KeystoreError) -> TokenInformation {
        try await entry("look at the token").information
    }
}

extension TokenAdministrator {
    /// The one token that the URI fits; a slot that is not initialised counts where no other does. No session is opened.
    func entry(_ operation: String) async throws(KeystoreError) -> TokenDirectory.Entry {
        let fitting = try await entries(operation).preferringInitialized
        guard let entry = fitting.first else { throw absent(operation) }
        guard fitting.count == 1 else { throw ambiguous(operation, fitting) }
        return entry
    }

    func entries(_ operation: String) async throws(KeystoreError) -> [TokenDirectory.Entry] {
        let directory = await TokenDirectory.read(uri, options: options.token)
        if directory.tokens.isEmpty, let failure = directory.failures.first {
            throw KeystoreError(failure.error, during: operation)
        }
        return directory.tokens
    }

    private func absent(_ operation: String) -> KeystoreError {
        KeystoreError(CryptokiError(.tokenAbsent, reason: "no token is \(uri)"), during: operation)
    }

    func ambiguous(_ operation: String, _ entries: [TokenDirectory.Entry]) -> KeystoreError {
        let names = entries.map { "‘\($0.information.label)’ with the serial number \($0.information.serial)" }
        return KeystoreError(
            CryptokiError(.tokenAmbiguous, reason: "several tokens fit: \(names.joined(separator: ", "))"),
            during: operation)
    }

    /// Asks for a PIN, or tells the person to use the reader where the token asks by itself.
    ///
    /// - Parameter reason: What the prompt says it is for.
    func proof(
        _ purpose: PINRequest.Purpose, of entry: TokenDirectory.Entry, to reason: String
    ) async throws(KeystoreError) -> LoginProof {
        let prompt = PromptContext(reason: reason, container: container)
        guard !nature(of: entry).asksItself else {
            await presence.notice(PresenceNotice(.useReader, context: prompt))
            return .protectedPath
        }
        let attemptsLeft = purpose == .current ? PINStatus(entry.information).attemptsLeft : nil
        let request = PINRequest(purpose: purpose, context: prompt, attemptsLeft: attemptsLeft)
        let pin = try await presence.givenPIN(request, to: reason)
        if purpose == .current { try nature(of: entry).check(pin, attemptsLeft: attemptsLeft, reason) }
        return .pin(pin)
    }

    /// What the token is, as far as that can be known without a session.
    func nature(of entry: TokenDirectory.Entry) -> TokenNature {
        TokenNature(ModuleProfile(for: entry.module), information: entry.information, options: options)
    }

    /// Erases the token with libp11, in a context of its own and when nothing else uses the token.
    ///
    /// - Parameter entry: The token as it was looked at; it must not have changed since.
    func initialize(
        _ operation: String, _ entry: TokenDirectory.Entry, label: String, securityOfficer proof: LoginProof
    ) async throws(KeystoreError) {
        let (information, limit) = (entry.information, options.token.deadlines.person)
        do throws(CryptokiError) {
            let module = try await Module.loadHere(entry.modulePath, options: options.token)
            let work: @Sendable () throws(CryptokiError) -> Void = { () throws(CryptokiError) in
                try LibP11Thread.run(operation, in: module, within: limit) {
                    Result { () throws(CryptokiError) in
                        let token = try LibP11Context(modulePath: module.path).token(information)
                        guard token.isInitialized == information.flags.contains(.initialized) else {
                            throw CryptokiError(.tokenAbsent, reason: "the token has changed since it was looked at")
                        }
                        // A token that has a session open is not initialised (CKR_SESSION_EXISTS).
                        token.endWriting()
                        try token.initialize(label: label, securityOfficer: proof)
                    }
                }
            }
            guard information.flags.contains(.initialized) else {
                // Nobody uses a token that is blank.
                let thread = module.isThreadSafe ? TokenThread(onExpiry: { _ in nil }) : module.thread
                return try await thread.run { Result { () throws(CryptokiError) in try work() } }
            }
            let token = try await Token.find(entry.uri, options: module.options)
            let login = token.login
            try await token.performAlone { (_) throws(CryptokiError) in
                login.forget()
                defer { LibP11Contexts.shared.abandon(token) }
                try work()
            }
        } catch {
            throw KeystoreError(error, during: operation, profile: ModuleProfile(for: entry.module))
        }
    }

    /// Sees to it that the token gives sessions, since libp11 would wait for ever for one that it does not get.
    func checkSession(_ operation: String, _ entry: TokenDirectory.Entry) async throws(KeystoreError) {
        do throws(CryptokiError) {
            let token = try await Token.find(entry.uri, options: options.token)
            _ = try await token.perform { (session) throws(CryptokiError) in try session.tokenInformation() }
        } catch {
            throw KeystoreError(error, during: operation, profile: ModuleProfile(for: entry.module))
        }
    }
}
