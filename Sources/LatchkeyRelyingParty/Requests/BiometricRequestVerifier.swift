internal import FoundationEssentials
internal import Latchkey

/// Verifies biometric requests in the order in which a deployed Authgear server does, and answers what it answers.
///
/// It is stricter in three points, none of which a conforming client notices: a set-up request must be signed by the
/// key that it brings (the deployed server stores the key unproved), a key must be P-256 for ES256 or RSA for RS256 with
/// public members only, and the header's `alg` must be the key's.
///
/// A challenge is used up as soon as the request is well-formed and in time, whatever comes of it afterwards: every
/// attempt needs a new one.
public struct BiometricRequestVerifier: Sendable {
    /// The header's `typ`.
    public static let type = "vnd.authgear.biometric-request"
    /// By how many seconds the client's clock may be off, either way.
    public static let clockSkew = 300

    private let challenges: any ChallengeStore
    private let devices: any DeviceRegistry
    private let clock: WallClock

    /// A verifier over the server's challenges and devices.
    public init(challenges: any ChallengeStore, devices: any DeviceRegistry, clock: WallClock = .system) {
        self.challenges = challenges
        self.devices = devices
        self.clock = clock
    }

    /// Verifies a request to register a key. Nothing is registered yet.
    ///
    /// - Parameter audience: The server and client that the request must name. Require them, and announce it with
    ///   `biometric_audience_required` in the discovery document: then a request for one server is worth nothing at another.
    ///   nil accepts requests that name none, as deployed Authgear servers do.
    /// - Throws: ``BiometricRequestError`` with code `wrongAudience`, `unacceptable`, `challengeRejected`, `incompleteSetup` or
    ///   `invalidSignature`; or what the challenge store throws.
    public func verifySetup(
        _ request: BiometricRequest, for audience: BiometricAudience? = nil
    ) async throws -> SetupProof {
        let kid = try await admit(request, as: .setup, for: audience)
        guard let info = request.deviceInfo.flatMap(DeviceInfo.init) else {
            throw BiometricRequestError(.incompleteSetup, "device_info names no model")
        }
        guard let jwk = request.key else { throw BiometricRequestError(.incompleteSetup, "there is no jwk") }
        guard let key = jwk.publicKey else {
            throw BiometricRequestError(.unacceptable, "the jwk is neither P-256 nor RSA of 2048 to 4096 bits")
        }
        guard request.headerKeyID ?? kid.rawValue == kid.rawValue else {
            throw BiometricRequestError(.invalidSignature, "the header's kid is not the jwk's")
        }
        try verifySignature(of: request, with: key)
        return SetupProof(kid: kid, key: key, info: info)
    }

    /// Verifies a request to log in.
    ///
    /// - Parameter audience: As for ``verifySetup(_:for:)``.
    /// - Returns: The registered device that signed it.
    /// - Throws: ``BiometricRequestError`` with code `wrongAudience`, `unacceptable`, `challengeRejected`, `unknownDevice` or
    ///   `invalidSignature`; or what the stores throw.
    public func verifyAuthentication(
        _ request: BiometricRequest, for audience: BiometricAudience? = nil
    ) async throws -> RegisteredDevice {
        let kid = try await admit(request, as: .authenticate, for: audience)
        guard let device = try await devices.device(kid: kid) else {
            throw BiometricRequestError(.unknownDevice, "no device is registered under this kid")
        }
        guard request.headerKeyID == kid.rawValue else {
            throw BiometricRequestError(.invalidSignature, "the header's kid is not the registered one")
        }
        try verifySignature(of: request, with: device.key)
        return device
    }

    /// What both actions have in common: form, time, name, and the challenge last.
    private func admit(
        _ request: BiometricRequest, as action: BiometricRequest.Action, for audience: BiometricAudience?
    ) async throws -> KeyID {
        func refuse(_ detail: String) -> BiometricRequestError { BiometricRequestError(.unacceptable, detail) }

        guard audience == nil || request.audience == audience else {
            throw BiometricRequestError(.wrongAudience, "aud or client_id is not this server's or client's")
        }
        guard request.action == action else { throw refuse("the action is not \(action.rawValue)") }
        let now = Double(clock.seconds)
        let skew = Double(Self.clockSkew)
        if let issuedAt = request.issuedAt, now < issuedAt - skew { throw refuse("iat is in the future") }
        if let notBefore = request.notBefore, now < notBefore - skew { throw refuse("nbf is in the future") }
        if let expiresAt = request.expiresAt, now >= expiresAt + skew { throw refuse("it has expired") }
        guard request.type == Self.type else { throw refuse("typ is not \(Self.type)") }
        guard let kid = request.keyID.flatMap(KeyID.init) else {
            throw refuse("kid is not 8 to 64 characters of A-Z a-z 0-9 _ -")
        }
        if let key = request.key {
            guard !key.hasPrivateMembers else { throw refuse("the jwk has private members") }
            guard key.use ?? "sig" == "sig" else { throw refuse("the jwk is not for signatures") }
            if action == .setup {
                guard let publicKey = key.publicKey else { throw refuse("the jwk is of a kind that is not accepted") }
                guard key.algorithm ?? publicKey.algorithm == publicKey.algorithm else {
                    throw refuse("the jwk is for another algorithm")
                }
            }
        }
        guard let challenge = request.challenge else { throw refuse("there is no challenge") }
        guard try await challenges.consume(challenge, for: .biometricRequest) else {
            throw BiometricRequestError(
                .challengeRejected, "the challenge is unknown, expired, used or for another use")
        }
        return kid
    }

    private func verifySignature(of request: BiometricRequest, with key: DevicePublicKey) throws {
        guard request.algorithm == key.algorithm else {
            throw BiometricRequestError(.invalidSignature, "alg is not \(key.algorithm)")
        }
        guard key.isValid(request.signature, for: Data(request.signingInput.utf8)) else {
            throw BiometricRequestError(.invalidSignature, "the signature does not verify")
        }
    }
}
