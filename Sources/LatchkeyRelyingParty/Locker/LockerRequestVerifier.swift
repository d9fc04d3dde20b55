internal import FoundationEssentials
internal import Latchkey

/// Verifies locker assertions, strictly: form, action, audience, enrolment and time first, then the challenge, then the
/// enrolment and its key, and signatures last.
///
/// A challenge is used up as soon as everything was right that can be checked without looking anything up, whatever
/// comes of it afterwards: every attempt needs a new one, and nothing malformed takes one away.
///
/// Whose session an assertion came in, and which client sent it, is the caller's to compare with the ``LockerEnrolment``.
public struct LockerRequestVerifier: Sendable {
    /// By how many seconds the client's clock may be off, either way.
    public static let clockSkew = 300.0

    private let challenges: any ChallengeStore
    private let registry: any LockerRegistry
    private let clock: WallClock

    /// A verifier over the server's challenges and enrolments.
    public init(challenges: any ChallengeStore, registry: any LockerRegistry, clock: WallClock = .system) {
        self.challenges = challenges
        self.registry = registry
        self.clock = clock
    }

    /// Verifies an assertion to enrol a device. Nothing is enrolled yet.
    ///
    /// - Parameter audience: The issuer that the assertion must be made for, exactly.
    /// - Throws: ``LockerRequestError`` with code `misdirected`, `untimely`, `challengeRejected` or `invalidSignature`;
    ///   or what the challenge store throws.
    public func verifyEnrolment(_ request: LockerRequest, audience: String) async throws -> LockerEnrolmentProof {
        try await admit(request, as: .enrol, audience: audience, enrolmentID: nil)
        guard let key = request.publicKey, let info = request.info else {
            throw LockerRequestError(.malformed, "it brings no key or no device_info")
        }
        try verifySignature(of: request, with: key)
        return LockerEnrolmentProof(deviceKey: LockerKey(kid: request.kid, publicKey: key), info: info)
    }

    /// Verifies an assertion to add an easy-access key, and that the enrolment's device wants it. Nothing is added yet.
    ///
    /// - Parameters:
    ///   - countersignature: The device key's signature over the assertion.
    ///   - audience: The issuer that the assertion must be made for, exactly.
    ///   - enrolmentID: The enrolment that the assertion must be made for.
    /// - Returns: The enrolment, and the key that the sender has.
    /// - Throws: ``LockerRequestError`` with code `misdirected`, `untimely`, `challengeRejected`, `enrolmentRevoked`,
    ///   `invalidSignature` or `invalidCountersignature`; or what the stores throw.
    public func verifyEasyAccessEnabling(
        _ request: LockerRequest, countersignature: LockerCountersignature, audience: String, enrolmentID: String
    ) async throws -> (enrolment: LockerEnrolment, key: LockerKey) {
        try await admit(request, as: .easyAccessEnable, audience: audience, enrolmentID: enrolmentID)
        let enrolment = try await enrolment(of: request)
        guard let key = request.publicKey else { throw LockerRequestError(.malformed, "it brings no key") }
        try verifySignature(of: request, with: key)
        guard countersignature.isValid(for: request, by: enrolment.deviceKey.publicKey) else {
            throw LockerRequestError(.invalidCountersignature, "the device's signature does not verify")
        }
        return (enrolment, LockerKey(kid: request.kid, publicKey: key))
    }

    /// Verifies an assertion of an easy-access key.
    ///
    /// - Parameter audience: The issuer that the assertion must be made for, exactly.
    /// - Returns: The enrolment that the key belongs to, and the key.
    /// - Throws: ``LockerRequestError`` with code `misdirected`, `untimely`, `challengeRejected`, `enrolmentRevoked`,
    ///   `easyAccessRevoked` or `invalidSignature`; or what the stores throw.
    public func verifyEasyAccess(
        _ request: LockerRequest, audience: String
    ) async throws -> (enrolment: LockerEnrolment, key: LockerKey) {
        try await admit(request, as: .easyAccess, audience: audience, enrolmentID: request.enrolmentID)
        let enrolment = try await enrolment(of: request)
        guard let key = enrolment.easyAccessKeys.first(where: { $0.kid == request.kid }) else {
            throw LockerRequestError(.easyAccessRevoked, "the enrolment has no easy-access key of this name")
        }
        try verifySignature(of: request, with: key.publicKey)
        return (enrolment, key)
    }

    /// Verifies an assertion of a device key for a token without its user.
    ///
    /// - Parameter audience: The issuer that the assertion must be made for, exactly.
    /// - Returns: The enrolment that the key belongs to.
    /// - Throws: ``LockerRequestError`` with code `misdirected`, `untimely`, `challengeRejected`, `enrolmentRevoked` or
    ///   `invalidSignature`; or what the stores throw.
    public func verifyBackgroundAccess(_ request: LockerRequest, audience: String) async throws -> LockerEnrolment {
        try await admit(request, as: .backgroundAccess, audience: audience, enrolmentID: request.enrolmentID)
        return try verify(request, byDeviceKeyOf: await enrolment(of: request))
    }

    /// Verifies an assertion of a device key for its level shares.
    ///
    /// - Parameters:
    ///   - audience: The issuer that the assertion must be made for, exactly.
    ///   - enrolmentID: The enrolment that the assertion must be made for.
    /// - Returns: The enrolment that the key belongs to.
    /// - Throws: As ``verifyBackgroundAccess(_:audience:)``.
    public func verifyLevelShares(
        _ request: LockerRequest, audience: String, enrolmentID: String
    ) async throws -> LockerEnrolment {
        try await admit(request, as: .levelShares, audience: audience, enrolmentID: enrolmentID)
        return try verify(request, byDeviceKeyOf: await enrolment(of: request))
    }

    /// Verifies an assertion of a device key that gives easy access up. Nothing is removed yet.
    ///
    /// - Parameters:
    ///   - audience: The issuer that the assertion must be made for, exactly.
    ///   - enrolmentID: The enrolment that the assertion must be made for.
    /// - Returns: The enrolment that the key belongs to.
    /// - Throws: As ``verifyBackgroundAccess(_:audience:)``.
    public func verifyEasyAccessDisabling(
        _ request: LockerRequest, audience: String, enrolmentID: String
    ) async throws -> LockerEnrolment {
        try await admit(request, as: .easyAccessDisable, audience: audience, enrolmentID: enrolmentID)
        return try verify(request, byDeviceKeyOf: await enrolment(of: request))
    }

    /// Verifies an assertion of a device key that ends its enrolment. Nothing is ended yet.
    ///
    /// - Parameters:
    ///   - audience: The issuer that the assertion must be made for, exactly.
    ///   - enrolmentID: The enrolment that the assertion must be made for.
    /// - Returns: The enrolment; nil when it is gone, so that there is no key any more to verify the signature with.
    /// - Throws: ``LockerRequestError`` with code `misdirected`, `enrolmentRevoked` when the enrolment's device key has
    ///   another name, or `invalidSignature`; or what the registry throws.
    public func verifyRevocation(
        _ request: LockerRequest, audience: String, enrolmentID: String
    ) async throws -> LockerEnrolment? {
        try await admit(request, as: .revoke, audience: audience, enrolmentID: enrolmentID)
        guard let enrolment = try await registry.enrolment(id: enrolmentID) else { return nil }
        return try verify(request, byDeviceKeyOf: enrolment)
    }

    /// What all actions have in common: what it is for, time, and the challenge last.
    private func admit(
        _ request: LockerRequest, as action: LockerRequest.Action, audience: String, enrolmentID: String?
    ) async throws {
        guard request.action == action else {
            throw LockerRequestError(.misdirected, "the action is not \(action.rawValue)")
        }
        guard request.audience == audience else { throw LockerRequestError(.misdirected, "aud is not the issuer") }
        guard request.enrolmentID == enrolmentID else {
            throw LockerRequestError(.misdirected, "iss is another enrolment")
        }
        guard let validity = request.validity else { return }
        let now = Double(clock.seconds)
        guard now >= validity.issuedAt - Self.clockSkew else {
            throw LockerRequestError(.untimely, "iat is in the future")
        }
        guard now < validity.expiresAt + Self.clockSkew else { throw LockerRequestError(.untimely, "it has expired") }
        guard try await challenges.consume(validity.challenge, for: .lockerRequest) else {
            throw LockerRequestError(.challengeRejected, "the challenge is unknown, expired, used or for another use")
        }
    }

    private func enrolment(of request: LockerRequest) async throws -> LockerEnrolment {
        guard let id = request.enrolmentID, let enrolment = try await registry.enrolment(id: id) else {
            throw LockerRequestError(.enrolmentRevoked, "there is no such enrolment")
        }
        return enrolment
    }

    private func verify(
        _ request: LockerRequest, byDeviceKeyOf enrolment: LockerEnrolment
    ) throws -> LockerEnrolment {
        guard enrolment.deviceKey.kid == request.kid else {
            throw LockerRequestError(.enrolmentRevoked, "the enrolment's device key has another name")
        }
        try verifySignature(of: request, with: enrolment.deviceKey.publicKey)
        return enrolment
    }

    private func verifySignature(of request: LockerRequest, with key: PublicKey) throws {
        guard key.isValid(request.signature, for: MessageDigest(sha256: request.signingInput.utf8)) else {
            throw LockerRequestError(.invalidSignature, "the signature does not verify")
        }
    }
}
