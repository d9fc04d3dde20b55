internal import FoundationEssentials
internal import Latchkey

/// A registration that runs.
struct Registration: Sendable {
    let request: RegistrationRequest
    var question: PasskeyQuestion?
}

/// `authenticatorMakeCredential`.
extension Authenticator {
    mutating func register(_ request: RegistrationRequest) throws(CTAPStatus) -> Step {
        guard !request.isProbe else { return select(answer: nil) }
        guard !RegistrationRequest.dummySites.contains(request.rpID) else {
            return select(answer: try dummyAnswer(request))
        }
        phase = .searching(Registration(request: request))
        return .find(rpID: request.rpID)
    }

    /// Prompts before the answer that a credential exists: otherwise any page could learn it.
    mutating func check(
        _ registration: Registration, _ passkeys: [Passkey], _ count: Int
    ) throws(CTAPStatus) -> Step {
        guard count < PasskeyStore.maximumCount else { throw .keyStoreFull }
        let request = registration.request
        guard !passkeys.contains(where: { request.excluded.contains($0.id) }) else {
            phase = .agreeing([CTAPStatus.credentialExcluded.rawValue])
            return .ask(question(.alreadyRegistered, site: request.rpID))
        }
        let replaces =
            request.isDiscoverable
            && passkeys.contains { $0.isDiscoverable && $0.userID == request.userID }
        let question = question(
            .create(replaces: replaces), site: request.rpID, accounts: [request.accountName],
            usesPRF: request.wantsMACKey)
        phase = .creatable(Registration(request: request, question: question))
        return .ask(question)
    }

    /// Creates the keys before the verification: the digest that the verification authorizes
    /// contains the public key.
    mutating func create(_ registration: Registration) -> Step {
        guard let question = registration.question else {
            return .answer([CTAPStatus.other.rawValue])
        }
        phase = .creating(registration)
        return .create(
            PasskeyCreation(wantsMACKey: registration.request.wantsMACKey, question: question))
    }

    mutating func attest(_ registration: Registration, _ key: HardwareKey, _ macKey: SealedSecret?)
        -> Step
    {
        guard let question = registration.question else {
            return .answer([CTAPStatus.other.rawValue])
        }
        let request = registration.request
        let passkey = Passkey(
            id: SecretBytes.random(count: Passkey.idBytes).withUnsafeBytes { Data($0) },
            rpID: request.rpID,
            rpName: request.rpName, userID: request.userID, userName: request.userName,
            displayName: request.displayName, protection: request.protection ?? 1,
            isDiscoverable: request.isDiscoverable, key: key, macKey: macKey, label: nil)
        phase = .attesting(registration, passkey, question)
        let digest = registrationData(request, passkey).digest(request.clientDataHash)
        return .use(
            PasskeyUse(
                passkey: passkey, salts: [], digest: { _ in digest }, question: question, account: 0
            ))
    }

    /// Without attestation the key signs too: the signature is the hardware's proof that it
    /// verified the user.
    mutating func store(
        _ registration: Registration, _ passkey: Passkey, _ signature: ECDSASignature
    ) throws(CTAPStatus) -> Step {
        let request = registration.request
        let data = registrationData(request, passkey).bytes
        phase = .storing(
            answer: Self.success(
                request.isUnattested
                    ? [1: .text("none"), 2: .bytes(data), 3: .map([:])]
                    : [
                        1: .text("packed"), 2: .bytes(data),
                        3: Self.statement(try signature.derBytes),
                    ]))
        return .store(passkey)
    }

    private func registrationData(_ request: RegistrationRequest, _ passkey: Passkey)
        -> AuthenticatorData
    {
        // Only requested extensions have an output: Chromium rejects an answer with another one.
        var extensions: [CBORKey: CBORValue] = [:]
        if let protection = request.protection { extensions["credProtect"] = .integer(protection) }
        if request.wantsMACKey { extensions["hmac-secret"] = .boolean(passkey.macKey != nil) }
        return AuthenticatorData(
            rpID: request.rpID, flags: .verified,
            attested: .init(aaguid: aaguid, id: passkey.id, publicKey: passkey.key.publicKey),
            extensions: extensions)
    }

    /// A registration with a temporary key, for the selection of a device. The user was present,
    /// and was not verified.
    private func dummyAnswer(_ request: RegistrationRequest) throws(CTAPStatus) -> [UInt8] {
        let key = TemporaryKey()
        let data = AuthenticatorData(
            rpID: request.rpID, flags: .userPresent,
            attested: .init(
                aaguid: aaguid,
                id: SecretBytes.random(count: Passkey.idBytes).withUnsafeBytes { Data($0) },
                publicKey: try key.publicKey)
        ).bytes
        return CBORValue.map([
            1: .text("packed"), 2: .bytes(data),
            3: Self.statement(try key.sign(data + request.clientDataHash)),
        ]).encoded
    }

    /// A packed self-attestation (WebAuthn Level 3 section 8.2).
    private static func statement(_ signature: [UInt8]) -> CBORValue {
        .map(["alg": .integer(-7), "sig": .bytes(signature)])
    }
}

extension RegistrationRequest {
    /// The account for people.
    fileprivate var accountName: String {
        for name in [userName, displayName] {
            if let name { return String(oneLine: name, limit: 64) }
        }
        return Base64URL.encode(userID)
    }
}
