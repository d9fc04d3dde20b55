internal import FoundationEssentials
internal import Latchkey
internal import Synchronization

/// The parameters of `authenticatorGetAssertion` (CTAP 2.0 section "authenticatorGetAssertion").
struct AssertionRequest: Sendable {
    let rpID: String
    let clientDataHash: [UInt8]
    /// The permitted credentials; nil if the client has no list.
    let allowed: [Data]?
    /// The request for PRF outputs, if there is one.
    let secret: HMACSecret?
    /// Whether the client only looks for a credential, without a prompt.
    let isSilent: Bool
    /// Whether the request only selects a device.
    let isProbe: Bool

    /// - Parameter agreement: The key with which `hmac-secret` is encrypted.
    init(_ parameters: CTAPParameters, agreement: HMACSecret.Agreement) throws(CTAPStatus) {
        isProbe = try parameters.isProbe(6)
        rpID = try CTAPParameters.checkedRPID(parameters.required(1))
        clientDataHash = try parameters.bytes(2, count: 32...32)
        let ids = try parameters.credentialIDs(3)
        // An empty list is no list. A list with elements of other types only permits nothing.
        allowed = parameters[3]?.array?.isEmpty == true ? nil : ids
        let options = try parameters.optionalMap(5)
        guard options["rk"] == nil else { throw .unsupportedOption }
        _ = try options.flag("uv")
        isSilent = try !(options.flag("up") ?? true)
        let extensions = try parameters.optionalMap(4)
        guard extensions["hmac-secret"] != nil else {
            secret = nil
            return
        }
        guard !isSilent else { throw .unsupportedOption }
        secret = try HMACSecret(extensions.map("hmac-secret"), agreement: agreement)
    }

    func permits(_ passkey: Passkey) -> Bool {
        allowed.map { $0.contains(passkey.id) } ?? passkey.isDiscoverable
    }
}

/// `authenticatorGetAssertion` and `authenticatorGetNextAssertion`.
extension Authenticator {
    /// Finds before it prompts, so that a user is not prompted for a passkey of another device.
    func getAssertion(_ request: AssertionRequest) async throws(CTAPStatus) -> Answer {
        guard !request.isProbe else {
            try await select()
            throw .pinNotSet
        }
        if !request.isSilent { try await admit(request.rpID) }
        // Newest first.
        let matches = try effects.passkeys(of: request.rpID).found.reversed().filter(
            request.permits)
        guard !request.isSilent else { return try silentAnswer(request, matches) }
        // Chromium would end the login for all devices after an answer. Another device may have the
        // credential.
        guard !matches.isEmpty else { try await holdUnknown(request.rpID) }
        let question = question(
            .signIn, site: request.rpID, accounts: matches.map(\.accountName),
            usesPRF: request.secret != nil)
        let account = try await ask(question, using: matches.count == 1 ? matches[0].key : nil)
        guard matches.indices.contains(account) else { throw .other }
        return try await login(
            request, with: matches[account], question: question, account: account,
            wasChosen: matches.count > 1 && request.allowed == nil)
    }

    private func login(
        _ request: AssertionRequest, with passkey: Passkey, question: PasskeyQuestion,
        account: Int, wasChosen: Bool
    ) async throws(CTAPStatus) -> Answer {
        let data = Mutex<[UInt8]>([])
        let use = PasskeyUse(
            passkey: passkey, salts: passkey.macKey == nil ? [] : request.secret?.salts ?? [],
            question: question, account: account
        ) { (outputs) throws(KeystoreError) in
            var extensions: [CBORKey: CBORValue] = [:]
            if let secret = request.secret, !outputs.isEmpty {
                extensions["hmac-secret"] = .bytes(try secret.encrypt(outputs))
            }
            let bytes = AuthenticatorData(
                rpID: request.rpID, flags: .verified, extensions: extensions
            ).bytes
            data.withLock { $0 = bytes }
            return MessageDigest(sha256: bytes + request.clientDataHash)
        }
        let signature = try await sign(use, authorizedBy: effects.verification(for: question))
        var answer: Answer = [
            1: passkey.descriptor, 2: .bytes(data.withLock(\.self)),
            3: .bytes(try signature.derBytes),
        ]
        if passkey.isDiscoverable { answer[4] = passkey.user }
        if wasChosen { answer[6] = .boolean(true) }
        return answer
    }

    // MARK: Silent requests

    /// Answers a request without a prompt, which reveals that this device has the credential, and
    /// the user's ID at the site.
    ///
    /// Credentials at the levels 2 and 3 of `credProtect` are answered only to a client that names
    /// their IDs (CTAP 2.1 section 12.1); at level 3 too, because clients without a token look for
    /// credentials in this way.
    private func silentAnswer(
        _ request: AssertionRequest, _ matches: [Passkey]
    ) throws(CTAPStatus) -> Answer {
        guard request.allowed == nil else {
            guard let match = matches.first else { throw .noCredentials }
            return try silentAnswer(request, for: match)
        }
        let shown = matches.filter { $0.protection == 1 }
        guard let first = shown.first else { throw .noCredentials }
        remaining = (request, shown.dropFirst())
        var answer = try silentAnswer(request, for: first)
        if shown.count > 1 { answer[5] = .integer(shown.count) }
        return answer
    }

    /// Answers the next match of a silent request. An answer with a prompt names one account, which
    /// the user chose.
    func getNextAssertion() throws(CTAPStatus) -> Answer {
        guard let (request, passkeys) = remaining, let next = passkeys.first else {
            throw .notAllowed
        }
        remaining = (request, passkeys.dropFirst())
        return try silentAnswer(request, for: next)
    }

    /// An answer that a temporary key signs. The flags state that no user was present.
    private func silentAnswer(
        _ request: AssertionRequest, for passkey: Passkey
    ) throws(CTAPStatus) -> Answer {
        let data = AuthenticatorData(rpID: request.rpID, flags: []).bytes
        var answer: Answer = [
            1: passkey.descriptor, 2: .bytes(data),
            3: .bytes(try TemporaryKey().sign(data + request.clientDataHash)),
        ]
        if passkey.isDiscoverable { answer[4] = passkey.user }
        return answer
    }
}

extension Passkey {
    fileprivate var descriptor: CBORValue {
        .map(["id": .bytes(Array(id)), "type": .text("public-key")])
    }
    /// The account without names: the user has chosen it already.
    fileprivate var user: CBORValue { .map(["id": .bytes(Array(userID))]) }
}
