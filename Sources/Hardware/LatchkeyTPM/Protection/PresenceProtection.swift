internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import TPM2

/// What authorizes the uses of a stored object.
///
/// It is stored with the object and is not trusted: the public area is computed from it and must
/// match that of the object.
enum PresenceProtection: Hashable, Sendable {
    /// An empty authValue: the policy `none`.
    case open
    /// The object's own PIN, whose wrong entries the TPM counts. Under the policy `userPresence`
    /// also a fingerprint.
    case ownPIN(salt: [UInt8], finger: Finger?)
    /// The presence broker.
    case broker(BrokerProof, reuseSecret: [UInt8]?)
    /// The PIN of an index that only this key uses.
    case gate(UserPIN)
    /// A random authValue in an index without a PIN.
    case secretIndex

    /// The proofs of the presence broker that open an object.
    enum BrokerProof: Hashable, Sendable {
        case finger(Finger)
        case pin(UserPIN)
        case either(Finger, UserPIN)
    }

    /// The branch of the policy that a fingerprint satisfies.
    struct Finger: Hashable, Sendable {
        let user: UInt32
        let authority: PublicArea
        /// The handle of the broker's key when the key was created.
        let handle: TPMHandle?
        let enrolmentSet: [UInt8]?
        let counter: Counter?
    }

    /// A counter that must not have changed.
    struct Counter: Hashable, Sendable {
        let index: NVIndex
        let value: UInt64

        /// The content of the index.
        var bytes: [UInt8] { value.marshalled }
    }

    /// The branch of the policy that the PIN of an index satisfies: the user's PIN, which the
    /// presence broker manages, or the PIN of a revocable key.
    struct UserPIN: Hashable, Sendable {
        let index: NVIndex
        /// The branch of the index's policy with which the broker writes the count, or with which
        /// the index of a revocable key was written once.
        let resetPolicy: PolicyDigest

        /// The assertions of the branch with which the current PIN authorizes its change. The index
        /// is the only handle of `NV_ChangeAuth`, in the ADMIN role. The branch serves no other
        /// role: each other command has another code.
        static let changing: [any PolicyAssertion] = [
            PolicyAuthValue(), PolicyCommandCode(.nvChangeAuth),
        ]
        static let changePolicy = PolicyDigest(changing)

        var branches: [PolicyDigest] { [resetPolicy, Self.changePolicy] }
    }

    static let authValueBytes = 32

    /// The branch of the policy that a fingerprint satisfies.
    var finger: Finger? {
        switch self {
        case .ownPIN(_, let finger): finger
        case .broker(.finger(let finger), _), .broker(.either(let finger, _), _): finger
        case .open, .broker(.pin, _), .gate, .secretIndex: nil
        }
    }

    /// The index whose PIN satisfies a branch of the policy.
    var userPIN: UserPIN? {
        if case .gate(let pin) = self { pin } else { brokerPIN }
    }

    /// The user's PIN that the presence broker manages. Wrong PINs count for its index alone.
    var brokerPIN: UserPIN? {
        switch self {
        case .broker(.pin(let pin), _), .broker(.either(_, let pin), _): pin
        default: nil
        }
    }

    /// The salt of the object's own PIN.
    var pinSalt: [UInt8]? {
        if case .ownPIN(let salt, _) = self { salt } else { nil }
    }

    /// The object's authValue, 32 random bytes, for a policy with a reuse time.
    ///
    /// The ticket of a reusable proof crosses the bus in plain text and is valid in any session.
    /// The object's policy also requires this secret, which never crosses the bus, so that a ticket
    /// alone authorizes nothing.
    var authValue: [UInt8]? {
        if case .broker(_, let secret) = self { secret } else { nil }
    }

    /// ``authValue`` in the TPM's type.
    var ownAuthValue: AuthValue? { authValue?.withUnsafeBytes { AuthValue($0) } }

    /// Whether an index of the TPM is necessary, so that removing it revokes the key.
    var isRevocable: Bool {
        switch self {
        case .gate, .secretIndex: true
        case .open, .ownPIN, .broker: false
        }
    }

    /// Whether only the object's policy authorizes its use (the USER role). Its authValue then
    /// authorizes the ADMIN role alone: an attestation key can certify the object, and the
    /// authValue can be changed, which opens nothing.
    var isPolicyOnly: Bool {
        switch self {
        case .broker, .gate: true
        case .open, .ownPIN, .secretIndex: false
        }
    }

    /// Whether it has exactly the parts that the policy requires.
    func fits(_ policy: AccessPolicy) -> Bool {
        switch self {
        case .open, .secretIndex: policy.requirement == .none && policy.reuseSeconds == 0
        case .gate: policy.requirement == .pin && policy.reuseSeconds == 0
        case .ownPIN(_, let finger):
            policy.requirement == (finger == nil ? .pin : .userPresence)
                && policy.reuseSeconds == 0
        case .broker(_, let reuseSecret):
            (finger != nil) == policy.hasFinger && (brokerPIN != nil) == policy.hasPIN
                && (reuseSecret != nil) == (policy.reuseSeconds > 0)
        }
    }

    /// The branches of the policy: fingerprint, PIN.
    ///
    /// Each branch is a proof of the user's presence, whatever the command is and whichever handle
    /// the object is. A branch for one command alone (`PolicyCommandCode`) would also permit the
    /// object as every other handle of this command: `TPM2_Certify` has the object to certify and
    /// the signer.
    func branches(under policy: AccessPolicy) throws(TPMError) -> [PolicyDigest] {
        var branches: [PolicyDigest] = []
        if let finger {
            var digest = PolicyDigest()
            if let counter = finger.counter {
                digest = PolicyDigest([PolicyNV(equals: counter.bytes, in: counter.index)])
            }
            branches.append(
                digest.signed(
                    by: try finger.authority.name, policyRef: finger.reference(under: policy)))
        }
        if let userPIN {
            branches.append(
                PolicyDigest().secret(
                    of: userPIN.index.name, policyRef: PresenceReference.pin(under: policy)))
        }
        return branches
    }

    /// The digest of the policy.
    func digest(under policy: AccessPolicy) throws(TPMError) -> [UInt8] {
        let branches = try branches(under: policy)
        let digest = PolicyDigest.or(branches) ?? branches.first
        return (authValue == nil ? digest : digest?.authValue())?.bytes ?? []
    }
}

extension PresenceProtection.Finger {
    func reference(under policy: AccessPolicy) -> [UInt8] {
        PresenceReference.use(by: user, under: policy, enrolmentSet: enrolmentSet)
    }
}

extension PresenceProtection {
    /// The requirements that have branches below. A new one is offered for keys in a TPM only once it
    /// is in this list.
    static let requirements: Set<AccessPolicy.Requirement> = [
        .none, .pin, .userPresence, .biometryAny, .biometryCurrentSet,
    ]

    /// Creates the protection of a new object that is not revocable.
    ///
    /// - Parameter terms: The broker's terms. Nil without a broker, which a policy with a
    ///   fingerprint requires.
    /// - Throws: ``TPMError`` of kind `malformed` for terms that are not valid.
    init(_ terms: PresenceTerms?, for policy: AccessPolicy) throws(TPMError) {
        var finger: Finger?
        if policy.hasFinger, let terms { finger = try Finger(terms, for: policy) }
        guard policy.hasPIN else {
            self =
                finger.map { .broker(.finger($0), reuseSecret: Self.reuseSecret(policy)) } ?? .open
            return
        }
        guard let stated = terms?.userPIN else {
            self = .ownPIN(salt: PINHardening.randomSalt(), finger: finger)
            return
        }
        let pin = try UserPIN(stated)
        self = .broker(
            finger.map { .either($0, pin) } ?? .pin(pin), reuseSecret: Self.reuseSecret(policy))
    }

    private static func reuseSecret(_ policy: AccessPolicy) -> [UInt8]? {
        policy.reuseSeconds == 0
            ? nil : SecretBytes.random(count: authValueBytes).withUnsafeBytes { Array($0) }
    }
}

extension PresenceProtection.Finger {
    init(_ terms: PresenceTerms, for policy: AccessPolicy) throws(TPMError) {
        user = terms.user
        authority = try PublicArea(unmarshalling: terms.authority)
        handle = terms.authorityHandle.map(TPMHandle.init(rawValue:))
        let isBoundToSet = policy.isBoundToFingers
        enrolmentSet = isBoundToSet ? terms.enrolmentSet.map { Array($0) } : nil
        counter =
            isBoundToSet
            ? try terms.counter.map { (counter) throws(TPMError) in
                PresenceProtection.Counter(
                    index: try NVIndex(unmarshalling: counter.publicArea), value: counter.value)
            } : nil
        guard authority.isMade(from: KeyTemplates.approvalKey),
            (enrolmentSet?.count == 32) == isBoundToSet
        else {
            throw TPMError(
                .malformed,
                reason: "the presence broker's key or set of enrolled fingers has another format")
        }
    }
}

extension PresenceProtection.UserPIN {
    /// The user's PIN in the terms of the presence broker.
    init(_ pin: PresenceTerms.UserPIN) throws(TPMError) {
        try self.init(
            index: try NVIndex(unmarshalling: pin.publicArea), resetPolicy: Array(pin.resetPolicy),
            attributes: Self.attributes)
    }

    /// - Throws: ``TPMError`` of kind `malformed` unless the written index has these attributes.
    init(index: NVIndex, resetPolicy bytes: [UInt8], attributes: NVAttributes) throws(TPMError) {
        guard let resetPolicy = PolicyDigest(bytes: bytes),
            index.publicArea.attributes == attributes.union(.written),
            index.publicArea.dataSize == Self.dataSize,
            index.publicArea.authPolicy == PolicyDigest.or([resetPolicy, Self.changePolicy])?.bytes
        else { throw TPMError(.malformed, reason: "the index of a PIN has another format") }
        self.init(index: index, resetPolicy: resetPolicy)
    }

    /// Only the broker writes the count. Wrong PINs count for this index alone, not for the whole
    /// TPM.
    static let attributes: NVAttributes = [.policyWrite, .authRead, .ownerRead, .noDA, .pinFail]
    /// The index of a revocable key, which nobody can write again. Wrong PINs count for the whole
    /// TPM.
    static let onceAttributes: NVAttributes = [.policyWrite, .authRead]
    static let dataSize: UInt16 = 8
}

/// The policyRef values of policies: digests of 32 bytes, a size that all TPMs support. Each kind
/// starts with a different text, so that an approval of one kind is not valid for another. The kind
/// `owner` is ``OwnerStatement/reference``, for which there is no policy.
enum PresenceReference {
    /// The reference for the use of one user's keys under one policy, and for one set of enrolled
    /// fingers if the policy is bound to it. Includes the reuse time, so that a reusable approval
    /// does not authorize a key without reuse.
    static func use(by user: UInt32, under policy: AccessPolicy, enrolmentSet: [UInt8]?) -> [UInt8]
    {
        digest(
            "approval", user, TPM2B(Array(policy.requirement.rawValue.utf8)),
            UInt16(policy.reuseSeconds),
            TPM2B(enrolmentSet ?? []))
    }

    /// The reference for the proof of a user's PIN.
    static func pin(under policy: AccessPolicy) -> [UInt8] {
        digest("pin", UInt16(policy.reuseSeconds))
    }

    /// The reference for the proof of a user's PIN at a sign-in to the machine.
    static let signInPIN = digest("sign-in-pin")

    /// The reference for the broker's approval of opening one user's secret at a sign-in, after a
    /// finger. No call of a client leads to a signature with it.
    static func signIn(of user: UInt32) -> [UInt8] { digest("sign-in", user) }

    /// The reference for the broker's writes of the count of one PIN. `making` is random for each
    /// index.
    ///
    /// The branch names no command. The index needs it for writing only (USER role), because the
    /// ADMIN role requires a `PolicyCommandCode`; and the broker approves it only in a session of
    /// its own, never for a client.
    static func reset(of user: UInt32, making: [UInt8]) -> [UInt8] {
        digest("pin-reset", user, TPM2B(making))
    }

    /// The reference for the broker's count of changes of one user's enrolled fingers. The same
    /// holds as for ``reset(of:making:)``.
    static func enrolmentChange(of user: UInt32) -> [UInt8] {
        digest("enrolment-change", user)
    }

    private static func digest(_ kind: String, _ values: any TPMMarshallable...) -> [UInt8] {
        var message = TPMWriter(TPM2B(Array("org.latchkey.presence/v1/\(kind)".utf8)))
        for value in values { message.write(value) }
        return Array(SHA256.hash(data: message.bytes))
    }
}
