internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyJOSE

/// Verifies locker assertions, in this order: form, action, audience, enrolment ID and time, then the challenge, then
/// the enrolment and its key, and last the signatures.
///
/// The challenge is used as soon as all checks without a lookup have succeeded, also if a later check fails. Every
/// attempt needs a new challenge, and a malformed assertion does not use one.
///
/// The caller compares the session's user and the client with those of the ``LockerEnrolment``.
package struct LockerRequestVerifier: Sendable {
    /// The accepted deviation of the client's clock in seconds, in both directions.
    package static let clockSkew = 300.0

    private let challenges: any ChallengeStore
    private let registry: LockerRegistry
    private let clock: WallClock

    /// Creates a verifier with the server's challenges and enrolments.
    package init(challenges: any ChallengeStore, registry: LockerRegistry, clock: WallClock = .system) {
        self.challenges = challenges
        self.registry = registry
        self.clock = clock
    }

    /// Verifies an assertion to enrol a device, without enrolling it.
    ///
    /// - Parameter audience: The server's issuer, which `aud` must equal exactly.
    /// - Throws: ``LockerRequestError`` with code `misdirected`, `untimely`, `challengeRejected` or `invalidSignature`;
    ///   or the challenge store's error.
    package func verifyEnrolment(_ request: LockerRequest, audience: String) async throws -> LockerEnrolmentProof {
        try await admit(request, as: .enrol, audience: audience, enrolmentID: nil)
        guard let key = request.publicKey, let info = request.info else {
            throw LockerRequestError(.malformed, "the assertion has no key or no device_info")
        }
        try verifySignature(of: request, with: key)
        return LockerEnrolmentProof(deviceKey: LockerKey(kid: request.kid, publicKey: key), info: info)
    }

    /// Verifies an assertion to add an easy-access key and the device's countersignature, without adding the key.
    ///
    /// - Parameters:
    ///   - countersignature: The device key's signature over the assertion.
    ///   - audience: The server's issuer, which `aud` must equal exactly.
    ///   - enrolmentID: The enrolment that `iss` must equal.
    /// - Returns: The enrolment and the sender's key.
    /// - Throws: ``LockerRequestError`` with code `misdirected`, `untimely`, `challengeRejected`, `enrolmentRevoked`,
    ///   `invalidSignature` or `invalidCountersignature`; or the stores' errors.
    package func verifyEasyAccessEnabling(
        _ request: LockerRequest, countersignature: LockerCountersignature, audience: String, enrolmentID: String
    ) async throws -> (enrolment: LockerEnrolment, key: LockerKey) {
        try await admit(request, as: .easyAccessEnable, audience: audience, enrolmentID: enrolmentID)
        let enrolment = try await enrolment(of: request)
        guard let key = request.publicKey else { throw LockerRequestError(.malformed, "the assertion has no key") }
        try verifySignature(of: request, with: key)
        guard countersignature.isValid(for: request, by: enrolment.deviceKey.publicKey) else {
            throw LockerRequestError(.invalidCountersignature, "the device's signature does not verify")
        }
        return (enrolment, LockerKey(kid: request.kid, publicKey: key))
    }

    /// Verifies an assertion of an easy-access key.
    ///
    /// - Parameter audience: The server's issuer, which `aud` must equal exactly.
    /// - Returns: The enrolment that the key belongs to, and the key.
    /// - Throws: ``LockerRequestError`` with code `misdirected`, `untimely`, `challengeRejected`, `enrolmentRevoked`,
    ///   `easyAccessRevoked` or `invalidSignature`; or the stores' errors.
    package func verifyEasyAccess(
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

    /// Verifies an assertion of a device key for background access.
    ///
    /// - Parameter audience: The server's issuer, which `aud` must equal exactly.
    /// - Returns: The enrolment that the key belongs to.
    /// - Throws: ``LockerRequestError`` with code `misdirected`, `untimely`, `challengeRejected`, `enrolmentRevoked` or
    ///   `invalidSignature`; or the stores' errors.
    package func verifyBackgroundAccess(_ request: LockerRequest, audience: String) async throws -> LockerEnrolment {
        try await admit(request, as: .backgroundAccess, audience: audience, enrolmentID: request.enrolmentID)
        return try verify(request, byDeviceKeyOf: await enrolment(of: request))
    }

    /// Verifies an assertion of a device key for its level shares.
    ///
    /// - Parameters:
    ///   - audience: The server's issuer, which `aud` must equal exactly.
    ///   - enrolmentID: The enrolment that `iss` must equal.
    /// - Returns: The enrolment that the key belongs to.
    /// - Throws: As ``verifyBackgroundAccess(_:audience:)``.
    package func verifyLevelShares(
        _ request: LockerRequest, audience: String, enrolmentID: String
    ) async throws -> LockerEnrolment {
        try await admit(request, as: .levelShares, audience: audience, enrolmentID: enrolmentID)
        return try verify(request, byDeviceKeyOf: await enrolment(of: request))
    }

    /// Verifies an assertion of a device key to disable easy access, without removing keys.
    ///
    /// - Parameters:
    ///   - audience: The server's issuer, which `aud` must equal exactly.
    ///   - enrolmentID: The enrolment that `iss` must equal.
    /// - Returns: The enrolment that the key belongs to.
    /// - Throws: As ``verifyBackgroundAccess(_:audience:)``.
    package func verifyEasyAccessDisabling(
        _ request: LockerRequest, audience: String, enrolmentID: String
    ) async throws -> LockerEnrolment {
        try await admit(request, as: .easyAccessDisable, audience: audience, enrolmentID: enrolmentID)
        return try verify(request, byDeviceKeyOf: await enrolment(of: request))
    }

    /// Verifies an assertion of a device key to revoke its enrolment, without deleting it.
    ///
    /// - Parameters:
    ///   - audience: The server's issuer, which `aud` must equal exactly.
    ///   - enrolmentID: The enrolment that `iss` must equal.
    /// - Returns: The enrolment; nil if it was deleted already, and with it the key to verify the signature.
    /// - Throws: ``LockerRequestError`` with code `misdirected`, `enrolmentRevoked` if the enrolment's device key has
    ///   another name, or `invalidSignature`; or the registry's error.
    package func verifyRevocation(
        _ request: LockerRequest, audience: String, enrolmentID: String
    ) async throws -> LockerEnrolment? {
        try await admit(request, as: .revoke, audience: audience, enrolmentID: enrolmentID)
        guard let enrolment = try await registry.enrolment(id: enrolmentID) else { return nil }
        return try verify(request, byDeviceKeyOf: enrolment)
    }

    /// Does the checks of all actions: action, audience, enrolment ID, time, and last the challenge.
    private func admit(
        _ request: LockerRequest, as action: LockerRequest.Action, audience: String, enrolmentID: String?
    ) async throws {
        guard request.action == action else {
            throw LockerRequestError(.misdirected, "the action is not \(action.rawValue)")
        }
        guard request.audience == audience else { throw LockerRequestError(.misdirected, "aud is not the issuer") }
        guard request.enrolmentID == enrolmentID else {
            throw LockerRequestError(.misdirected, "iss names another enrolment")
        }
        guard let validity = request.validity else { return }
        let now = Double(clock.seconds)
        guard now >= validity.issuedAt - Self.clockSkew else {
            throw LockerRequestError(.untimely, "iat is in the future")
        }
        guard now < validity.expiresAt + Self.clockSkew else { throw LockerRequestError(.untimely, "it has expired") }
        guard try await challenges.consume(validity.challenge, for: .lockerRequest) else {
            throw LockerRequestError(
                .challengeRejected, "the challenge is unknown, expired, used or for another purpose")
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
