internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyJOSE

/// Verifies locker assertions, in this order: form, action, audience, enrolment ID and time, then
/// the challenge, then the enrolment and its key, and last the signatures.
///
/// The challenge is used as soon as all checks without a lookup have succeeded, also if a later
/// check fails. Every attempt needs a new challenge, and a malformed assertion does not use one.
///
/// `audience` is the server's issuer, which `aud` must equal exactly; `enrolmentID` is the
/// enrolment that `iss` must equal. All functions throw ``LockerRequestError`` with code
/// `misdirected`, `untimely`, `challengeRejected` or `invalidSignature`, and, if there is no
/// enrolment or its device key has another name, `enrolmentRevoked`; or the stores' errors.
///
/// The caller compares the session's user and the client with those of the ``LockerEnrolment``.
public struct LockerRequestVerifier: Sendable {
    private let challenges: any ChallengeStore
    private let registry: LockerRegistry
    private let clock: WallClock

    /// Creates a verifier with the server's challenges and enrolments.
    public init(challenges: any ChallengeStore, registry: LockerRegistry) {
        self.init(challenges: challenges, registry: registry, clock: .system)
    }

    package init(challenges: any ChallengeStore, registry: LockerRegistry, clock: WallClock) {
        self.challenges = challenges
        self.registry = registry
        self.clock = clock
    }

    /// Verifies an assertion to enrol a device, without enrolling it. The result does not identify
    /// a user. The session of the request does.
    public func verifyEnrolment(
        _ request: LockerRequest, audience: String
    ) async throws -> (deviceKey: LockerKey, info: DeviceInfo) {
        try await admit(request, as: .enrol, audience: audience, enrolmentID: nil)
        guard let key = request.publicKey, let info = request.info else {
            throw LockerRequestError(.malformed, "the assertion has no key or no device_info")
        }
        try verifySignature(of: request, with: key)
        return (LockerKey(kid: request.kid, publicKey: key), info)
    }

    /// Verifies an assertion to add an easy-access key and the device's countersignature, without
    /// adding the key.
    ///
    /// - Parameter countersignature: The device key's signature over the assertion.
    /// - Returns: The enrolment and the sender's key.
    /// - Throws: ``LockerRequestError``, also with code `invalidCountersignature`.
    public func verifyEasyAccessEnabling(
        _ request: LockerRequest, countersignature: LockerCountersignature, audience: String,
        enrolmentID: String
    ) async throws -> (enrolment: LockerEnrolment, key: LockerKey) {
        try await admit(
            request, as: .easyAccessEnable, audience: audience, enrolmentID: enrolmentID)
        let enrolment = try await enrolment(of: request)
        guard let key = request.publicKey else {
            throw LockerRequestError(.malformed, "the assertion has no key")
        }
        try verifySignature(of: request, with: key)
        guard countersignature.isValid(for: request, by: enrolment.deviceKey.publicKey) else {
            throw LockerRequestError(
                .invalidCountersignature, "the device's signature does not verify")
        }
        return (enrolment, LockerKey(kid: request.kid, publicKey: key))
    }

    /// Verifies an assertion of an easy-access key.
    ///
    /// - Returns: The enrolment that the key belongs to, and the key.
    /// - Throws: ``LockerRequestError``, also with code `easyAccessRevoked`.
    public func verifyEasyAccess(
        _ request: LockerRequest, audience: String
    ) async throws -> (enrolment: LockerEnrolment, key: LockerKey) {
        try await admit(request, as: .easyAccess, audience: audience, enrolmentID: nil)
        let enrolment = try await enrolment(of: request)
        guard let key = enrolment.easyAccessKeys.first(where: { $0.kid == request.kid }) else {
            throw LockerRequestError(
                .easyAccessRevoked, "the enrolment has no easy-access key of this name")
        }
        try verifySignature(of: request, with: key.publicKey)
        return (enrolment, key)
    }

    /// Verifies an assertion of a device key for background access or level shares, or to disable
    /// easy access, without doing what it requests.
    ///
    /// The result does not authenticate the user. Before the server releases both level shares, it
    /// requires a session of the enrolment's user
    /// (``LockerRegistry/levelShares(of:afterAuthenticationOf:)``).
    ///
    /// - Parameters:
    ///   - action: The only action that is accepted: the purpose of the endpoint, not the action of
    ///     the request.
    ///   - enrolmentID: nil accepts any enrolment.
    /// - Returns: The enrolment that the key belongs to.
    public func verifyDevice(
        _ request: LockerRequest, for action: LockerRequest.DeviceAction, audience: String,
        enrolmentID: String?
    ) async throws -> LockerEnrolment {
        try await admit(request, as: action.action, audience: audience, enrolmentID: enrolmentID)
        return try verify(request, byDeviceKeyOf: await enrolment(of: request))
    }

    /// Verifies an assertion of a device key to revoke its enrolment, without deleting it.
    ///
    /// - Returns: The enrolment; nil if it was deleted already, and with it the key to verify the
    ///   signature.
    public func verifyRevocation(
        _ request: LockerRequest, audience: String, enrolmentID: String
    ) async throws -> LockerEnrolment? {
        try await admit(request, as: .revoke, audience: audience, enrolmentID: enrolmentID)
        guard let enrolment = try await registry.enrolment(id: enrolmentID) else { return nil }
        return try verify(request, byDeviceKeyOf: enrolment)
    }

    /// Runs the checks that all actions share: action, audience, enrolment ID unless it is nil,
    /// time, then the challenge.
    private func admit(
        _ request: LockerRequest, as action: LockerRequest.Action, audience: String,
        enrolmentID: String?
    ) async throws {
        guard request.action == action else {
            throw LockerRequestError(.misdirected, "the action is not \(action.rawValue)")
        }
        guard request.audience == audience else {
            throw LockerRequestError(.misdirected, "aud is not the issuer")
        }
        guard enrolmentID == nil || request.enrolmentID == enrolmentID else {
            throw LockerRequestError(.misdirected, "iss names another enrolment")
        }
        guard let validity = request.validity else { return }
        let now = Double(clock.seconds)
        let skew = BiometricRequestVerifier.clockSkew
        guard now >= validity.issuedAt - skew else {
            throw LockerRequestError(.untimely, "iat is in the future")
        }
        guard now < validity.expiresAt + skew else {
            throw LockerRequestError(.untimely, "the assertion has expired")
        }
        guard try await challenges.consume(validity.challenge, for: .lockerRequest) else {
            throw LockerRequestError(
                .challengeRejected, "the challenge is unknown, expired, used or for another purpose"
            )
        }
    }

    private func enrolment(of request: LockerRequest) async throws -> LockerEnrolment {
        guard let id = request.enrolmentID, let enrolment = try await registry.enrolment(id: id)
        else {
            throw LockerRequestError(.enrolmentRevoked, "there is no such enrolment")
        }
        return enrolment
    }

    private func verify(
        _ request: LockerRequest, byDeviceKeyOf enrolment: LockerEnrolment
    ) throws -> LockerEnrolment {
        guard enrolment.deviceKey.kid == request.kid else {
            throw LockerRequestError(
                .enrolmentRevoked, "the enrolment's device key has another name")
        }
        try verifySignature(of: request, with: enrolment.deviceKey.publicKey)
        return enrolment
    }

    private func verifySignature(of request: LockerRequest, with key: PublicKey) throws {
        guard key.isValid(request.signature, for: MessageDigest(sha256: request.signingInput.utf8))
        else {
            throw LockerRequestError(.invalidSignature, "the signature does not verify")
        }
    }
}
