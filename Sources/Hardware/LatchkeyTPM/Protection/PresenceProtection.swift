internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import TPM2

/// The authorizations of a key other than its own PIN: the presence broker's approval, the PIN of
/// an index, or either, and for certification none.
///
/// It is stored with the key and is not trusted: the digest of the policy is computed from it and
/// must match that of the key.
struct PresenceProtection: Hashable, Sendable {
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

        /// The branch with which the current PIN authorizes its change.
        static let changePolicy = PolicyDigest().authValue().commandCode(.nvChangeAuth)

        var branches: [PolicyDigest] { [resetPolicy, Self.changePolicy] }
    }

    let finger: Finger?
    let userPIN: UserPIN?
    /// The key's authValue, 32 random bytes, for a policy with a reuse time. Nil for other policies
    /// and for keys of earlier versions.
    ///
    /// The ticket of a reusable proof crosses the bus in plain text and is valid in any session.
    /// The key's policy also requires this secret, which never crosses the bus, so that a ticket
    /// alone authorizes nothing.
    let authValue: [UInt8]?

    /// Whether the last branch of the policy permits `TPM2_Certify` without any authorization. It
    /// permits nothing else, so that a verifier can learn the policy of the key without a prompt.
    /// False for secrets and for keys of earlier versions.
    let certifies: Bool

    static let authValueBytes = 32

    /// The branch for `TPM2_Certify`.
    static let certification = PolicyDigest().commandCode(.certify)

    /// The user's PIN that the presence broker manages. Wrong PINs count for its index alone.
    var brokerPIN: UserPIN? { userPIN.flatMap { $0.isOnce ? nil : $0 } }

    /// ``authValue`` in the TPM's type.
    var ownAuthValue: AuthValue? { authValue?.withUnsafeBytes { AuthValue($0) } }

    /// The branches of the key's policy: fingerprint, PIN, certification.
    func branches(under policy: AccessPolicy) throws(TPMError) -> [PolicyDigest] {
        var branches: [PolicyDigest] = []
        if let finger {
            var digest = PolicyDigest()
            if let counter = finger.counter {
                digest = digest.nvEquals(counter.bytes, in: counter.index.name)
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
        if certifies { branches.append(Self.certification) }
        return branches
    }

    /// The digest of the key's policy.
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
    /// Decodes and checks the broker's terms for a policy.
    ///
    /// - Parameter certifies: See ``certifies``.
    /// - Throws: ``TPMError`` of kind `malformed` for terms that are not valid.
    init(_ terms: PresenceTerms, for policy: AccessPolicy, certifies: Bool) throws(TPMError) {
        self.certifies = certifies
        finger = policy.hasFinger ? try Finger(terms, for: policy) : nil
        userPIN =
            policy.hasPIN
            ? try terms.userPIN.map { (pin) throws(TPMError) in try UserPIN(pin) } : nil
        authValue =
            policy.reuseSeconds > 0
            ? SecretBytes.random(count: Self.authValueBytes).withUnsafeBytes { Array($0) } : nil
    }

    /// The protection of a key with its own PIN: only the branch for certification.
    static let certificationOnly = PresenceProtection(
        finger: nil, userPIN: nil, authValue: nil, certifies: true)
}

extension PresenceProtection.Finger {
    init(_ terms: PresenceTerms, for policy: AccessPolicy) throws(TPMError) {
        user = terms.user
        authority = try PublicArea(unmarshalling: terms.authority)
        handle = terms.authorityHandle.map(TPMHandle.init(rawValue:))
        let isBoundToSet = policy.requirement == .biometryCurrentSet
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
            index: try NVIndex(unmarshalling: pin.publicArea), resetPolicy: Array(pin.resetPolicy))
        guard !isOnce else { throw Self.otherFormat }
    }

    init(index: NVIndex, resetPolicy bytes: [UInt8]) throws(TPMError) {
        guard let resetPolicy = PolicyDigest(bytes: bytes),
            [Self.attributes, Self.onceAttributes].contains(
                index.publicArea.attributes.subtracting(.written)),
            index.publicArea.attributes.contains(.written),
            index.publicArea.dataSize == Self.dataSize,
            index.publicArea.authPolicy == PolicyDigest.or([resetPolicy, Self.changePolicy])?.bytes
        else { throw Self.otherFormat }
        self.init(index: index, resetPolicy: resetPolicy)
    }

    private static let otherFormat = TPMError(
        .malformed, reason: "the index of a PIN has another format")

    /// Only the broker writes the count. Wrong PINs count for this index alone, not for the whole
    /// TPM.
    static let attributes: NVAttributes = [.policyWrite, .authRead, .ownerRead, .noDA, .pinFail]
    /// The index of a revocable key, which nobody can write again. Wrong PINs count for the whole
    /// TPM.
    static let onceAttributes: NVAttributes = [.policyWrite, .authRead]
    static let dataSize: UInt16 = 8

    /// Whether it is the index of a revocable key.
    var isOnce: Bool { index.publicArea.attributes == Self.onceAttributes.union(.written) }
}

extension PresenceProtection {
    private static let version: UInt8 = 1

    /// The stored bytes.
    var bytes: [UInt8] {
        var writer = TPMWriter(Self.version, parts)
        if let finger {
            writer.write(
                finger.user, TPM2B(finger.authority), finger.handle ?? .null,
                TPM2B(finger.enrolmentSet ?? []))
            if let counter = finger.counter {
                writer.write(TPM2B(counter.index.publicArea), counter.value)
            }
        }
        if let userPIN {
            writer.write(TPM2B(userPIN.index.publicArea))
            writer.write(userPIN.resetPolicy.bytes)
        }
        if let authValue { writer.write(authValue) }
        return writer.bytes
    }

    /// The optional parts of the stored bytes, one bit for each.
    private var parts: UInt8 {
        (finger == nil ? 0 : 1) | (finger?.counter == nil ? 0 : 2) | (userPIN == nil ? 0 : 4)
            | (authValue == nil ? 0 : 8) | (certifies ? 16 : 0)
    }

    /// - Throws: ``TPMError`` of kind `malformed`.
    init(bytes: [UInt8]) throws(TPMError) {
        var reader = TPMReader(bytes)
        guard try reader.read(UInt8.self) == Self.version else {
            throw TPMError(.malformed, reason: "a key's protection has another version")
        }
        let parts = try reader.read(UInt8.self)
        guard parts & ~31 == 0, parts & 3 != 2, parts & 5 != 0 || parts == 16 else {
            throw TPMError(.malformed, reason: "a key's protection has unknown parts")
        }
        finger = parts & 1 == 0 ? nil : try Finger(from: &reader, hasCounter: parts & 2 != 0)
        userPIN =
            parts & 4 == 0
            ? nil
            : try UserPIN(
                index: try reader.readSized(NVIndex.self, maximum: 256),
                resetPolicy: try reader.readBytes(32))
        certifies = parts & 16 != 0
        authValue = parts & 8 == 0 ? nil : try reader.readBytes(Self.authValueBytes)
        try reader.finish()
    }
}

extension PresenceProtection.Finger {
    fileprivate init(from reader: inout TPMReader, hasCounter: Bool) throws(TPMError) {
        user = try reader.read()
        authority = try reader.readSized(PublicArea.self, maximum: PublicArea.maximumBytes)
        let storedHandle = try reader.read(TPMHandle.self)
        handle = storedHandle == .null ? nil : storedHandle
        let set = try reader.readSized(maximum: 32)
        enrolmentSet = set.isEmpty ? nil : set
        counter =
            hasCounter
            ? PresenceProtection.Counter(
                index: try reader.readSized(NVIndex.self, maximum: 256), value: try reader.read())
            : nil
    }
}

/// The policyRef values of policies: digests of 32 bytes, a size that all TPMs support. Each kind
/// starts with a different text, so that an approval of one kind is not valid for another.
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

    /// The reference for the broker's writes of the count of one PIN. `making` is random for each
    /// index.
    static func reset(of user: UInt32, making: [UInt8]) -> [UInt8] {
        digest("pin-reset", user, TPM2B(making))
    }

    /// The reference for the broker's count of changes of one user's enrolled fingers.
    static func enrolmentChange(of user: UInt32) -> [UInt8] {
        digest("enrolment-change", user)
    }

    private static func digest(_ kind: String, _ values: any TPMMarshallable...) -> [UInt8] {
        var message = TPMWriter(TPM2B(Array("org.latchkey.presence/v1/\(kind)".utf8)))
        for value in values { message.write(value) }
        return Array(SHA256.hash(data: message.bytes))
    }
}
