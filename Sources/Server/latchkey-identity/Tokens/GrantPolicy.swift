import Latchkey
import LatchkeyRelyingParty

/// A session of a user whose key may be used now.
///
/// Only ``GrantPolicy`` creates one, after its checks. Each function that gives a token, a claim or
/// a level share requires one, so that no grant can omit the checks.
struct Session: Sendable {
    let user: User
    let grant: LoginGrant
    /// The enrolment of easy or background access.
    let enrolment: PermittedEnrolment?

    fileprivate init(user: User, grant: LoginGrant, enrolment: PermittedEnrolment?) {
        (self.user, self.grant, self.enrolment) = (user, grant, enrolment)
    }
}

/// An enrolment whose device key may be used now. Only ``GrantPolicy`` creates one.
struct PermittedEnrolment: Sendable {
    let enrolment: LockerEnrolment

    fileprivate init(_ enrolment: LockerEnrolment) { self.enrolment = enrolment }
}

/// The one decision whether a key may open or continue a session now.
///
/// It is made in the transaction that stores a new session, and at each use of an access token or a
/// refresh token. The user and the client must still exist. The key must still be registered for
/// both, its kind of login must be on, and its stored proof must meet the client's requirement: an
/// operator can have changed the requirement, or removed an approval key, since the key was set up.
struct GrantPolicy: Sendable {
    let configuration: ServerConfiguration
    let devices: DatabaseDeviceRegistry
    let enrolments: LockerRegistry
    /// nil if the configuration has no member `attestation`.
    let attestation: AttestationServices?

    /// Decides about a new session. Its key cannot be removed until the transaction ends.
    ///
    /// - Returns: nil if the user or the key no longer exists.
    /// - Throws: ``OAuthError``, `LockerRequestError`, `AttestationError` or `DPoPError`: the reason
    ///   why the key may not open a session. Let the transaction fail.
    func open(
        _ grant: LoginGrant, provenBy proof: GrantProof, keyProof: DPoPProof?,
        in database: any SQLConnection
    ) throws -> Session? {
        if grant.keyThumbprint == nil,
            configuration.client(id: grant.clientID)?.dpop.isRequired == true
        {
            throw DPoPError(.missing, "the client must prove a key")
        }
        switch proof {
        case .password: break
        case .biometric(let device):
            guard try devices.lock(device, in: database) else { return nil }
        case .easyAccess(let enrolment, let key):
            try enrolments.lock(key, of: enrolment, in: database)
        case .background(let enrolment): try enrolments.lock(enrolment, in: database)
        }
        return try session(grant, provenBy: .key(keyProof), in: database)
    }

    /// Decides about a stored session.
    ///
    /// - Returns: nil if the session has ended: the user, the client or the key no longer exists, or
    ///   its kind of login is off.
    /// - Throws: As ``open(_:provenBy:keyProof:in:)``, and the reason why the request does not prove
    ///   the grant's key.
    func session(
        _ grant: LoginGrant, provenBy possession: Possession, in database: any SQLConnection
    ) throws -> Session? {
        guard let client = configuration.client(id: grant.clientID),
            let user = try User.user(id: grant.userID, in: database),
            // A grant that began before the client had to use a key has ended.
            grant.keyThumbprint != nil || !client.dpop.isRequired
        else { return nil }
        try possession.check(grant, in: database)
        switch grant.amr {
        case nil where grant.deviceID == nil:
            return Session(user: user, grant: grant, enrolment: nil)
        // After a new authentication with the password, the session still belongs to the device.
        case nil, .biometric:
            guard !configuration.identity.biometric.disabled,
                let device = try grant.deviceID.flatMap({ try devices.device(id: $0, in: database) }
                ),
                device.userID == user.id
            else { return nil }
            try attestation?.requireProof(device.attestation, for: client, in: database)
            return Session(user: user, grant: grant, enrolment: nil)
        case .easyAccess:
            guard let permitted = try enrolment(of: grant, in: database),
                let key = permitted.enrolment.easyAccessKeys.first(where: {
                    $0.kid.rawValue == grant.easyAccessKeyID
                })
            else { return nil }
            try attestation?.requireProof(key.attestation, for: client, in: database)
            return Session(user: user, grant: grant, enrolment: permitted)
        case .background:
            guard let permitted = try enrolment(of: grant, in: database) else { return nil }
            return Session(user: user, grant: grant, enrolment: permitted)
        }
    }

    /// Decides whether the device key of an enrolment, which signed a request, may be used by a
    /// user in a client now.
    ///
    /// - Throws: As ``open(_:provenBy:keyProof:in:)``.
    func permit(
        _ enrolment: LockerEnrolment, userID: String, clientID: String,
        in database: any SQLConnection
    ) throws -> PermittedEnrolment {
        try enrolment.requireOwner(userID: userID, clientID: clientID)
        try attestation?.requireProof(
            enrolment.deviceKey.attestation, for: configuration.client(id: clientID),
            isDeviceKey: true, in: database)
        return PermittedEnrolment(enrolment)
    }

    private func enrolment(of grant: LoginGrant, in database: any SQLConnection) throws
        -> PermittedEnrolment?
    {
        guard let id = grant.enrolmentID,
            let stored = try enrolments.enrolment(id: id, in: database)
        else { return nil }
        return try permit(stored, userID: grant.userID, clientID: grant.clientID, in: database)
    }
}

extension LockerEnrolment {
    /// Refuses all users and clients except those that created the enrolment.
    func requireOwner(userID: String, clientID: String) throws(OAuthError) {
        guard userID == self.userID else {
            throw .invalidToken("the access token and the enrolment belong to different users")
        }
        guard clientID == self.clientID else {
            throw .unauthorizedClient("the enrolment belongs to another client")
        }
    }
}
