internal import FoundationEssentials
internal import Latchkey

/// `authenticatorGetAssertion` and `authenticatorGetNextAssertion`.
extension Authenticator {
    /// Finds before it prompts, so that a user is not prompted for a passkey of another device.
    mutating func match(_ request: AssertionRequest, _ passkeys: [Passkey]) throws(CTAPStatus)
        -> Step
    {
        // Newest first.
        let matches = passkeys.reversed().filter { passkey in
            passkey.rpID == request.rpID
                && request.allowed.map { $0.contains(passkey.id) } ?? passkey.isDiscoverable
        }
        if request.isSilent {
            let hasList = request.allowed != nil
            // CTAP 2.1 section 12.1: without a verification, a client finds higher levels by their
            // IDs only.
            let shown = hasList ? matches : matches.filter { $0.protection == 1 }
            guard let first = shown.first else { throw .noCredentials }
            remaining = hasList ? nil : (request, shown.dropFirst())
            return .answer(try silentAnswer(request, first, count: hasList ? 1 : shown.count))
        }
        // Chromium would end the login for all devices after an answer. Another device may have the
        // credential.
        guard !matches.isEmpty else {
            phase = .holding
            return .hold
        }
        phase = .choosing(request, matches)
        return .ask(
            signInQuestion(request, matches), key: matches.count == 1 ? matches[0].key : nil)
    }

    mutating func sign(
        _ request: AssertionRequest, _ matches: [Passkey], _ index: Int
    ) throws(CTAPStatus) -> Step {
        guard matches.indices.contains(index) else { throw .other }
        let passkey = matches[index]
        let question = signInQuestion(request, matches)
        phase = .signing(
            request, passkey, question, wasChosen: matches.count > 1 && request.allowed == nil)
        return .use(
            PasskeyUse(
                passkey: passkey, salts: passkey.macKey == nil ? [] : request.secret?.salts ?? [],
                digest: { (outputs) throws(KeystoreError) in
                    do throws(CTAPStatus) {
                        return try request.data(outputs).digest(request.clientDataHash)
                    } catch {
                        throw .invalidInput("the PRF's outputs cannot be encrypted")
                    }
                }, question: question, account: index))
    }

    func assert(
        _ request: AssertionRequest, _ passkey: Passkey, _ signature: ECDSASignature,
        _ outputs: [SecretBytes],
        wasChosen: Bool
    ) throws(CTAPStatus) -> Step {
        var answer: [CBORKey: CBORValue] = [
            1: passkey.descriptor, 2: .bytes(try request.data(outputs).bytes),
            3: .bytes(try signature.derBytes),
        ]
        if passkey.isDiscoverable { answer[4] = passkey.user }
        if wasChosen { answer[6] = .boolean(true) }
        return .answer(Self.success(answer))
    }

    private func signInQuestion(_ request: AssertionRequest, _ matches: [Passkey])
        -> PasskeyQuestion
    {
        question(
            .signIn, site: request.rpID, accounts: matches.map(\.accountName),
            usesPRF: request.secret != nil)
    }

    // MARK: Silent requests

    /// Answers the next match of a silent request. An answer with a prompt names one account, which
    /// the user chose.
    mutating func nextSilentAnswer() throws(CTAPStatus) -> Step {
        guard let (request, passkeys) = remaining, let next = passkeys.first else {
            throw .notAllowed
        }
        remaining = (request, passkeys.dropFirst())
        return .answer(try silentAnswer(request, next, count: 1))
    }

    /// An answer without a prompt, signed with a temporary key. The flags state that no user was
    /// present. It reveals that this device has the credential, and the user's ID at the site.
    /// Credentials at the levels 2 and 3 of `credProtect` are answered only to a client that names
    /// their IDs; at level 3 too, because clients without a token look for credentials in this way.
    private func silentAnswer(
        _ request: AssertionRequest, _ passkey: Passkey, count: Int
    ) throws(CTAPStatus) -> [UInt8] {
        let data = AuthenticatorData(rpID: request.rpID, flags: []).bytes
        var answer: [CBORKey: CBORValue] = [
            1: passkey.descriptor, 2: .bytes(data),
            3: .bytes(try TemporaryKey().sign(data + request.clientDataHash)),
        ]
        if passkey.isDiscoverable { answer[4] = passkey.user }
        if count > 1 { answer[5] = .integer(count) }
        return Self.success(answer)
    }
}

extension AssertionRequest {
    /// The authenticator data of the answer.
    fileprivate func data(_ outputs: [SecretBytes]) throws(CTAPStatus) -> AuthenticatorData {
        var extensions: [CBORKey: CBORValue] = [:]
        if let secret, !outputs.isEmpty {
            extensions["hmac-secret"] = .bytes(try secret.encrypt(outputs))
        }
        return AuthenticatorData(rpID: rpID, flags: .verified, extensions: extensions)
    }
}

extension Passkey {
    fileprivate var descriptor: CBORValue {
        .map(["id": .bytes(Array(id)), "type": .text("public-key")])
    }
    /// The account without names: the user has chosen it already.
    fileprivate var user: CBORValue { .map(["id": .bytes(Array(userID))]) }
}
