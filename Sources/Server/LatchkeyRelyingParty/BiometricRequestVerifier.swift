internal import FoundationEssentials
public import Latchkey
internal import LatchkeyJOSE

/// Verifies biometric requests, with the order of checks and the errors of deployed Authgear
/// servers.
///
/// Three checks are stricter, without effect on conforming clients: a set-up request must be signed
/// by the key that it contains (deployed servers do not verify it), a key must be P-256 for ES256
/// or RSA for RS256 with public members only, and the header's `alg` must match the key.
///
/// The challenge is used as soon as the request is well-formed and in time, also if a later check
/// fails. Every attempt needs a new challenge.
public struct BiometricRequestVerifier: Sendable {
    /// The header's `typ`.
    private static let type = "vnd.authgear.biometric-request"
    /// The accepted deviation of the client's clock in seconds, in both directions.
    package static let clockSkew = 300.0

    private let challenges: any ChallengeStore
    private let devices: any DeviceRegistry
    private let clock: WallClock

    /// Creates a verifier with the server's challenges and devices.
    public init(challenges: any ChallengeStore, devices: any DeviceRegistry) {
        self.init(challenges: challenges, devices: devices, clock: .system)
    }

    package init(challenges: any ChallengeStore, devices: any DeviceRegistry, clock: WallClock) {
        self.challenges = challenges
        self.devices = devices
        self.clock = clock
    }

    /// Verifies a request to register a key, without registering it.
    ///
    /// - Parameter audience: The server and client that the request must name. Set it, and
    ///   advertise `biometric_audience_required` in the discovery document: then a malicious server
    ///   cannot forward a request to another server. nil accepts requests that name none, as
    ///   deployed Authgear servers do.
    /// - Throws: ``BiometricRequestError`` with code `wrongAudience`, `unacceptable`,
    ///   `challengeRejected`, `incompleteSetup` or `invalidSignature`; or the challenge store's
    ///   error.
    public func verifySetup(
        _ request: BiometricRequest, for audience: BiometricAudience? = nil
    ) async throws -> SetupProof {
        let kid = try await admit(request, as: .setup, for: audience)
        guard let info = request.deviceInfo.flatMap(DeviceInfo.init) else {
            throw BiometricRequestError(.incompleteSetup, "device_info does not name a model")
        }
        guard let jwk = request.key else {
            throw BiometricRequestError(.incompleteSetup, "there is no jwk")
        }
        guard let key = jwk.publicKey else {
            throw BiometricRequestError(
                .unacceptable, "the jwk is neither P-256 nor RSA of 2048 to 4096 bits")
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
    /// - Throws: ``BiometricRequestError`` with code `wrongAudience`, `unacceptable`,
    ///   `challengeRejected`, `unknownDevice` or `invalidSignature`; or the stores' errors.
    public func verifyAuthentication(
        _ request: BiometricRequest, for audience: BiometricAudience? = nil
    ) async throws -> RegisteredDevice {
        let kid = try await admit(request, as: .authenticate, for: audience)
        guard let device = try await devices.device(kid: kid) else {
            throw BiometricRequestError(.unknownDevice, "no device is registered under this kid")
        }
        guard request.headerKeyID == kid.rawValue else {
            throw BiometricRequestError(
                .invalidSignature, "the header's kid is not the registered one")
        }
        try verifySignature(of: request, with: device.key)
        return device
    }

    /// Does the checks of both actions: audience, form, time, key name, and last the challenge.
    private func admit(
        _ request: BiometricRequest, as action: BiometricRequest.Action,
        for audience: BiometricAudience?
    ) async throws -> KeyID {
        func unacceptable(_ detail: String) -> BiometricRequestError {
            BiometricRequestError(.unacceptable, detail)
        }

        let (header, payload) = (request.jws.header, request.jws.payload)
        guard audience == nil || audience?.isNamed(by: payload) == true else {
            throw BiometricRequestError(
                .wrongAudience, "aud or client_id is not this server's or client's")
        }
        guard request.action == action else {
            throw unacceptable("the action is not \(action.rawValue)")
        }
        let now = Double(clock.seconds)
        for time in [request.issuedAt, request.notBefore].compactMap(\.self)
        where now < time - Self.clockSkew {
            throw unacceptable("iat or nbf is in the future")
        }
        if let expiresAt = request.expiresAt, now >= expiresAt + Self.clockSkew {
            throw unacceptable("it has expired")
        }
        guard header["typ"]?.string == Self.type else {
            throw unacceptable("typ is not \(Self.type)")
        }
        guard let kid = request.keyID else {
            throw unacceptable("kid is not 8 to 64 characters of A-Z a-z 0-9 _ -")
        }
        if let objection = request.key?.objection { throw unacceptable(objection) }
        guard try await challenges.consume(request.challenge, for: .biometricRequest) else {
            throw BiometricRequestError(
                .challengeRejected, "the challenge is unknown, expired, used or for another purpose"
            )
        }
        return kid
    }

    private func verifySignature(of request: BiometricRequest, with key: DevicePublicKey) throws {
        guard request.jws.header["alg"]?.string == key.algorithm else {
            throw BiometricRequestError(.invalidSignature, "alg is not \(key.algorithm)")
        }
        guard key.isValid(request.jws.signature, for: Data(request.jws.signingInput.utf8)) else {
            throw BiometricRequestError(.invalidSignature, "the signature does not verify")
        }
    }
}

/// A verified set-up request: the sender has the private key.
///
/// It does not identify a user. The session of the request does.
public struct SetupProof: Hashable, Sendable {
    /// The name of the key.
    public let kid: KeyID
    /// The sender's public key.
    public let key: DevicePublicKey
    /// The device's description of itself.
    public let info: DeviceInfo
}

/// The reason why a biometric request was refused.
public typealias BiometricRequestError = VerificationError<BiometricRequestReason>

/// The reasons why a biometric request is refused, in the order of the checks.
public enum BiometricRequestReason: String, Sendable {
    /// Not a JSON Web Signature with a JSON header and payload, or its `jwk` is not a JSON Web Key.
    case unparsable
    /// `action` is neither `setup` nor `authenticate`.
    case invalidAction
    /// `aud` or `client_id` is missing or names another server or client.
    case wrongAudience
    /// The time, the type, the key's name or the kind of key is invalid.
    case unacceptable
    /// The challenge is unknown, expired, used, or for another purpose.
    case challengeRejected
    /// The set-up request has no key, or its `device_info` does not name a model.
    case incompleteSetup
    /// No device is registered under the key's name.
    case unknownDevice
    /// The signature does not verify, or the header names another key.
    case invalidSignature
    /// A device with this key name is registered already, for this user or another. The response is
    /// that of ``invalidSignature``, so that it reveals no name.
    case duplicateKeyID
}

extension BiometricRequestError {
    /// The token endpoint's response, as on deployed Authgear servers; except for `duplicateKeyID`,
    /// to which they answer 500.
    public var oauthError: OAuthError {
        switch code {
        case .unparsable: .invalidRequest(detail)
        case .wrongAudience: .invalidRequest("the JWT is not for this server and client")
        case .invalidAction: .invalidRequest("invalid action: \(detail)")
        case .unacceptable, .challengeRejected, .incompleteSetup, .unknownDevice, .invalidSignature,
            .duplicateKeyID:
            .invalidGrant("InvalidCredentials")
        }
    }
}
