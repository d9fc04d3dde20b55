internal import FoundationEssentials
internal import Latchkey
internal import Synchronization

/// The parameters of `authenticatorMakeCredential` (CTAP 2.0 section
/// "authenticatorMakeCredential").
struct RegistrationRequest: Hashable, Sendable {
    /// The sites with which browsers make a user select a device. They are never credentials.
    static let dummySites: Set<String> = ["make.me.blink", ".dummy"]
    private static let es256 = -7

    let clientDataHash: [UInt8]
    let rpID: String
    let rpName: String?
    let userID: Data
    let userName: String?
    let displayName: String?
    let excluded: [Data]
    /// The level of `credProtect`, or nil if the client did not request the extension.
    let protection: Int?
    let wantsMACKey: Bool
    let isDiscoverable: Bool
    /// Whether the attestation is `none` instead of `packed`.
    let isUnattested: Bool
    /// Whether the request only selects a device.
    let isProbe: Bool

    init(_ parameters: CTAPParameters) throws(CTAPStatus) {
        isProbe = try parameters.isProbe(8)
        clientDataHash = try parameters.bytes(1, count: 32...32)
        let site = try parameters.map(2)
        rpID = try CTAPParameters.checkedRPID(site.required("id"))
        rpName = try site.text("name")
        let user = try parameters.map(3)
        userID = Data(try user.bytes("id", count: 1...64))
        userName = try user.text("name")
        displayName = try user.text("displayName")
        try Self.checkAlgorithms(parameters.required(4))
        excluded = try parameters.credentialIDs(5) ?? []
        let extensions = try parameters.optionalMap(6)
        protection = try extensions.integer("credProtect")
        guard (1...3).contains(protection ?? 1) else { throw .invalidParameter }
        wantsMACKey = try extensions.flag("hmac-secret") ?? false
        let options = try parameters.optionalMap(7)
        isDiscoverable = try options.flag("rk") ?? false
        _ = try options.flag("uv")
        guard try options.flag("up") ?? true else { throw .invalidOption }
        guard parameters[10] == nil else { throw .invalidParameter }
        isUnattested = try Self.prefersNone(parameters[11])
    }

    private static func checkAlgorithms(_ value: CBORValue) throws(CTAPStatus) {
        guard let elements = value.array else { throw .unexpectedType }
        var isSupported = false
        for element in elements {
            guard let element = try CTAPParameters.publicKeyElement(element) else { continue }
            guard let algorithm = try element.required("alg").integer else {
                throw .unexpectedType
            }
            if algorithm == es256 { isSupported = true }
        }
        guard isSupported else { throw .unsupportedAlgorithm }
    }

    /// Whether `none` comes before `packed` in the preferred formats (CTAP 2.2).
    private static func prefersNone(_ value: CBORValue?) throws(CTAPStatus) -> Bool {
        guard let value else { return false }
        guard let elements = value.array else { throw .unexpectedType }
        for element in elements {
            guard let format = element.text else { throw .unexpectedType }
            if format == "none" { return true }
            if format == "packed" { return false }
        }
        return false
    }
}

/// `authenticatorMakeCredential`.
extension Authenticator {
    func makeCredential(_ request: RegistrationRequest) async throws(CTAPStatus) -> Answer {
        guard !request.isProbe else {
            try await select()
            throw .pinNotSet
        }
        guard !RegistrationRequest.dummySites.contains(request.rpID) else {
            try await select()
            return try dummyAnswer(request)
        }
        try await admit(request.rpID)
        let (passkeys, count) = try effects.passkeys(of: request.rpID)
        guard count < PasskeyStore.maximumCount else { throw .keyStoreFull }
        // Prompts before the answer that a credential exists: otherwise any page could learn it.
        guard !passkeys.contains(where: { request.excluded.contains($0.id) }) else {
            try await confirm(question(.alreadyRegistered, site: request.rpID))
            throw .credentialExcluded
        }
        let replaces =
            request.isDiscoverable
            && passkeys.contains { $0.isDiscoverable && $0.userID == request.userID }
        let question = question(
            .create(replaces: replaces), site: request.rpID, accounts: [request.accountName],
            usesPRF: request.wantsMACKey)
        _ = try await ask(question)
        let presence = effects.verification(for: question)
        // The keys are created before the verification, because the digest that it authorizes
        // contains the public key. A new PIN is chosen now.
        let created = Mutex<HardwareKey?>(nil)
        do throws(CTAPStatus) {
            let effects = effects
            let (key, macKey) = try await waitForUser(Self.verificationTime) {
                () async throws(CTAPStatus) in
                let keys = try await effects.createKeys(
                    withMACKey: request.wantsMACKey, for: question, authorizedBy: presence)
                created.withLock { $0 = keys.key }
                return keys
            }
            let passkey = Passkey(request, key: key, macKey: macKey)
            return try await attest(request, with: passkey, for: question, authorizedBy: presence)
        } catch {
            // Also a key that was created after the end of the time.
            if let key = created.withLock(\.self) { await effects.discard(key) }
            throw error
        }
    }

    /// Without attestation the key signs too: the signature is the hardware's proof that it
    /// verified the user.
    private func attest(
        _ request: RegistrationRequest, with passkey: Passkey, for question: PasskeyQuestion,
        authorizedBy presence: PresenceSession
    ) async throws(CTAPStatus) -> Answer {
        // Only requested extensions have an output: Chromium rejects an answer with another one.
        var extensions: [CBORKey: CBORValue] = [:]
        if let protection = request.protection { extensions["credProtect"] = .integer(protection) }
        if request.wantsMACKey { extensions["hmac-secret"] = .boolean(passkey.macKey != nil) }
        let data = AuthenticatorData(
            rpID: request.rpID, flags: .verified,
            attested: .init(aaguid: aaguid, id: passkey.id, publicKey: passkey.key.publicKey),
            extensions: extensions
        ).bytes
        let digest = MessageDigest(sha256: data + request.clientDataHash)
        let use = PasskeyUse(passkey: passkey, salts: [], question: question, account: 0) { _ in
            digest
        }
        let signature = try await sign(use, authorizedBy: presence)
        let answer: Answer =
            request.isUnattested
            ? [1: .text("none"), 2: .bytes(data), 3: .map([:])]
            : Self.packed(data, signature: try signature.derBytes)
        try await enter(.processing)
        try await effects.add(passkey)
        return answer
    }

    /// A registration with a temporary key, for the selection of a device. The user was present,
    /// and was not verified.
    private func dummyAnswer(_ request: RegistrationRequest) throws(CTAPStatus) -> Answer {
        let key = TemporaryKey()
        let data = AuthenticatorData(
            rpID: request.rpID, flags: .userPresent,
            attested: .init(aaguid: aaguid, id: Passkey.newID(), publicKey: try key.publicKey)
        ).bytes
        return Self.packed(data, signature: try key.sign(data + request.clientDataHash))
    }

    /// A packed self-attestation (WebAuthn Level 3 section 8.2).
    private static func packed(_ data: [UInt8], signature: [UInt8]) -> Answer {
        [
            1: .text("packed"), 2: .bytes(data),
            3: .map(["alg": .integer(-7), "sig": .bytes(signature)]),
        ]
    }
}

extension Passkey {
    fileprivate init(_ request: RegistrationRequest, key: HardwareKey, macKey: SealedSecret?) {
        self.init(
            id: Self.newID(), rpID: request.rpID, rpName: request.rpName, userID: request.userID,
            userName: request.userName, displayName: request.displayName,
            protection: request.protection ?? 1, isDiscoverable: request.isDiscoverable,
            key: key, macKey: macKey, label: nil)
    }

    fileprivate static func newID() -> Data {
        SecretBytes.random(count: idBytes).withUnsafeBytes { Data($0) }
    }
}

extension RegistrationRequest {
    /// The account for people.
    fileprivate var accountName: String {
        Passkey.accountName([userName, displayName], userID: userID)
    }
}
