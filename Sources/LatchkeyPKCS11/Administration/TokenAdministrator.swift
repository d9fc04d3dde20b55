internal import FoundationEssentials
package import Latchkey

/// Initializes a token and administers its PINs.
///
/// All calls run on the token's thread with a deadline, and end a login that a ``PKCS11Keystore`` on the token may have kept,
/// which then prompts for the PIN again.
///
/// Each method prompts the presence authority for PINs in the documented order. If the token itself prompts, on a PIN pad or
/// fingerprint sensor, the authority is notified.
package struct TokenAdministrator: Sendable {
    package let uri: TokenURI
    let options: PKCS11Options
    let container: String
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

    /// The token's current information.
    ///
    /// - Throws: `KeystoreError`; `unavailable` if the token is absent, `conflict` if the URI matches several.
    package func information() async throws(KeystoreError) -> TokenInformation {
        try await entry("look at the token").information
    }
}

extension TokenAdministrator {
    /// The one token that matches the URI; an uninitialized slot only if nothing else matches. Opens no session.
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
            CryptokiError(.tokenAmbiguous, reason: "several tokens match: \(names.joined(separator: ", "))"),
            during: operation)
    }

    /// Prompts for a PIN, or tells the user to use the reader if the token itself prompts.
    ///
    /// - Parameter reason: The operation in the prompt.
    func proof(
        _ purpose: PINRequest.Purpose, of entry: TokenDirectory.Entry, to reason: String
    ) async throws(KeystoreError) -> LoginProof {
        let prompt = PromptContext(reason: reason, container: container)
        guard !profile(of: entry).verifiesUserItself else {
            await presence.notice(PresenceNotice(.useReader, context: prompt))
            return .protectedPath
        }
        let attemptsLeft = purpose == .current ? PINStatus(entry.information).attemptsLeft : nil
        let request = PINRequest(purpose: purpose, context: prompt, attemptsLeft: attemptsLeft)
        let pin = try await presence.givenPIN(request, to: reason)
        if purpose == .current { try profile(of: entry).check(pin, attemptsLeft: attemptsLeft, reason) }
        return .pin(pin)
    }

    func profile(of entry: TokenDirectory.Entry) -> TokenProfile {
        TokenProfile(ModuleProfile(for: entry.module), information: entry.information, options: options)
    }

    /// Erases the token. It must not have changed since `entry` was read.
    func initialize(
        _ operation: String, _ entry: TokenDirectory.Entry, label: String, securityOfficer proof: LoginProof
    ) async throws(KeystoreError) {
        do throws(CryptokiError) {
            let module = try await Module.load(entry.modulePath, options: options.token)
            // Several blank tokens may have the same identity, so a blank token is not shared.
            let token =
                entry.information.flags.contains(.initialized)
                ? try await Token.find(entry.uri, options: options.token)
                : Token(module: module, information: entry.information, uri: entry.uri, options: options.token)
            // Also a failed C_InitToken follows the end of all sessions, and libp11 would keep its own.
            defer { LibP11Contexts.shared.abandon(token) }
            try await token.initialize(expecting: entry.information, label: label, securityOfficer: proof)
        } catch {
            throw KeystoreError(error, during: operation, profile: ModuleProfile(for: entry.module))
        }
    }

    /// Checks that the token opens sessions, before any prompt.
    func checkSession(_ operation: String, _ entry: TokenDirectory.Entry) async throws(KeystoreError) {
        do throws(CryptokiError) {
            let token = try await Token.find(entry.uri, options: options.token)
            _ = try await token.perform { (session) throws(CryptokiError) in try session.tokenInformation() }
        } catch {
            throw KeystoreError(error, during: operation, profile: ModuleProfile(for: entry.module))
        }
    }
}
