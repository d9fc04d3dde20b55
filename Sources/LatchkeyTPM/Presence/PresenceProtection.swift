internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import TPM2

/// What a key is bound to besides its own PIN: the presence broker's word, the user's own PIN, or either.
///
/// It is stored with the key. Nothing in it is believed: the policy's digest is computed from it and must be the one that
/// the key has.
struct PresenceProtection: Hashable, Sendable {
    /// The branch that a finger opens.
    struct Finger: Hashable, Sendable {
        let user: UInt32
        let authority: PublicArea
        /// Where the broker's key was when the key was made.
        let handle: TPMHandle?
        let enrolmentSet: [UInt8]?
        let counter: Counter?
    }

    /// A counter that must not have moved.
    struct Counter: Hashable, Sendable {
        let index: NVIndex
        let value: UInt64

        /// As the index holds it.
        var bytes: [UInt8] { value.marshalledBytes }
    }

    /// The branch that the user's own PIN opens.
    struct UserPIN: Hashable, Sendable {
        let index: NVIndex
        /// The branch of the index's policy in which the broker writes the count.
        let resetPolicy: PolicyDigest

        /// The branch in which the PIN is changed: whoever knows it may.
        static let changePolicy = PolicyDigest().authValue().commandCode(.nvChangeAuth)

        var branches: [PolicyDigest] { [resetPolicy, Self.changePolicy] }
    }

    let finger: Finger?
    let userPIN: UserPIN?
    /// The key's authValue, 32 random bytes, for a policy with a time of reuse; nil for other policies and for keys that were
    /// made before there was one.
    ///
    /// The ticket of a reusable proof crosses the bus in the clear and serves any session. The key's policy demands this
    /// secret too, which never crosses the bus, so that a ticket alone opens nothing.
    let authValue: [UInt8]?

    static let authValueBytes = 32

    /// ``authValue`` as the TPM takes it.
    var ownAuthValue: AuthValue? { authValue?.withUnsafeBytes { AuthValue($0) } }

    /// The branches of the key's policy, the finger's first.
    func branches(under policy: AccessPolicy) throws(TPMError) -> [PolicyDigest] {
        var branches: [PolicyDigest] = []
        if let finger {
            var digest = PolicyDigest()
            if let counter = finger.counter { digest = digest.nvEquals(counter.bytes, in: counter.index.name) }
            branches.append(
                digest.signed(by: try finger.authority.name, policyRef: finger.reference(under: policy)))
        }
        if let userPIN {
            branches.append(
                PolicyDigest().secret(of: userPIN.index.name, policyRef: PresenceReference.pin(under: policy)))
        }
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

extension UInt64 {
    /// Eight bytes, most significant first.
    var marshalledBytes: [UInt8] { withUnsafeBytes(of: bigEndian) { Array($0) } }
}

extension PresenceProtection {
    /// What the broker offers for a policy, taken apart and checked.
    ///
    /// - Throws: ``TPMError`` of kind `malformed` when it can't be what it is said to be.
    init(_ terms: PresenceTerms, for policy: AccessPolicy) throws(TPMError) {
        finger = policy.hasFinger ? try Finger(terms, for: policy) : nil
        userPIN = policy.hasPIN ? try terms.userPIN.map { (pin) throws(TPMError) in try UserPIN(pin) } : nil
        authValue =
            policy.reuseSeconds > 0
            ? SecretBytes.random(count: Self.authValueBytes).withUnsafeBytes { Array($0) } : nil
    }
}

extension PresenceProtection.Finger {
    init(_ terms: PresenceTerms, for policy: AccessPolicy) throws(TPMError) {
        user = terms.user
        authority = try PublicArea(unmarshalling: Array(terms.authority))
        handle = terms.authorityHandle.map(TPMHandle.init(rawValue:))
        let isBoundToSet = policy.requirement == .biometryCurrentSet
        enrolmentSet = isBoundToSet ? terms.enrolmentSet.map { Array($0) } : nil
        counter =
            isBoundToSet
            ? try terms.counter.map { (counter) throws(TPMError) in
                PresenceProtection.Counter(
                    index: try NVIndex(publicArea: NVPublicArea(unmarshalling: Array(counter.publicArea))),
                    value: counter.value)
            } : nil
        guard authority.isMade(from: KeyTemplates.approvalKey), (enrolmentSet?.count == 32) == isBoundToSet else {
            throw TPMError(.malformed, reason: "the presence broker's key or set of fingers has another form")
        }
    }
}

extension PresenceProtection.UserPIN {
    init(_ pin: PresenceTerms.UserPIN) throws(TPMError) {
        index = try NVIndex(publicArea: NVPublicArea(unmarshalling: Array(pin.publicArea)))
        guard let resetPolicy = PolicyDigest(bytes: Array(pin.resetPolicy)),
            index.publicArea.attributes == Self.attributes.union(.written),
            index.publicArea.dataSize == 8,
            index.publicArea.authPolicy == PolicyDigest.or([resetPolicy, Self.changePolicy])?.bytes
        else { throw TPMError(.malformed, reason: "the index of the user's PIN has another form") }
        self.resetPolicy = resetPolicy
    }

    /// Only the broker writes the count; it is the index's own authorization that fails or not, and it touches nobody
    /// else's.
    static let attributes: NVAttributes = [.policyWrite, .authRead, .ownerRead, .noDA, .pinFail]
}

extension PresenceProtection {
    private static let version: UInt8 = 1

    /// The stored form.
    var bytes: [UInt8] {
        var writer = TPMWriter()
        writer.write(Self.version)
        writer.write(parts)
        if let finger {
            writer.write(finger.user)
            writer.writeSized(finger.authority)
            writer.write(finger.handle ?? .null)
            writer.writeSized(finger.enrolmentSet ?? [])
            if let counter = finger.counter {
                writer.writeSized(counter.index.publicArea)
                writer.write(counter.value)
            }
        }
        if let userPIN {
            writer.writeSized(userPIN.index.publicArea)
            writer.write(userPIN.resetPolicy.bytes)
        }
        if let authValue { writer.write(authValue) }
        return writer.bytes
    }

    /// Which optional parts the stored form has, one bit for each.
    private var parts: UInt8 {
        (finger == nil ? 0 : 1) | (finger?.counter == nil ? 0 : 2) | (userPIN == nil ? 0 : 4)
            | (authValue == nil ? 0 : 8)
    }

    /// - Throws: ``TPMError`` of kind `malformed`.
    init(bytes: [UInt8]) throws(TPMError) {
        var reader = TPMReader(bytes)
        guard try reader.read(UInt8.self) == Self.version else {
            throw TPMError(.malformed, reason: "a key's protection has another version")
        }
        let parts = try reader.read(UInt8.self)
        guard parts & ~15 == 0, parts & 3 != 2, parts & 5 != 0 else {
            throw TPMError(.malformed, reason: "a key's protection has unknown parts")
        }
        finger = parts & 1 == 0 ? nil : try Finger(from: &reader, hasCounter: parts & 2 != 0)
        userPIN =
            parts & 4 == 0
            ? nil
            : try UserPIN(
                PresenceTerms.UserPIN(
                    publicArea: Data(try reader.readSized(maximum: 256)), resetPolicy: Data(try reader.readBytes(32))))
        authValue = parts & 8 == 0 ? nil : try reader.readBytes(Self.authValueBytes)
        try reader.finish()
    }
}

extension PresenceProtection.Finger {
    fileprivate init(from reader: inout TPMReader, hasCounter: Bool) throws(TPMError) {
        user = try reader.read()
        authority = try reader.readSized(PublicArea.self, maximum: PublicArea.maximumBytes)
        let place = try reader.read(TPMHandle.self)
        handle = place == .null ? nil : place
        let set = try reader.readSized(maximum: 32)
        enrolmentSet = set.isEmpty ? nil : set
        counter =
            hasCounter
            ? PresenceProtection.Counter(
                index: try NVIndex(publicArea: reader.readSized(NVPublicArea.self, maximum: 256)),
                value: try reader.read()) : nil
    }
}

/// What a policy's branch names besides the key that approves: digests of 32 bytes, so that every TPM takes them. Each
/// kind has a text of its own in front, so that an approval of one kind is none of another.
enum PresenceReference {
    /// What the broker approves: the use of keys of one user under one policy, for one set of enrolled fingers where
    /// the policy dies with it. A key without reuse has another reference than one with it, so that no approval that
    /// serves several uses opens it.
    static func use(by user: UInt32, under policy: AccessPolicy, enrolmentSet: [UInt8]?) -> [UInt8] {
        var message = domain("approval")
        message.write(user)
        message.writeSized(Array(policy.requirement.rawValue.utf8))
        message.write(UInt16(policy.reuseSeconds))
        message.writeSized(enrolmentSet ?? [])
        return digest(message)
    }

    /// What the proof of a user's own PIN is for.
    static func pin(under policy: AccessPolicy) -> [UInt8] {
        var message = domain("pin")
        message.write(UInt16(policy.reuseSeconds))
        return digest(message)
    }

    /// What the broker writes: the count of one PIN, of one making.
    static func reset(of user: UInt32, making: [UInt8]) -> [UInt8] {
        var message = domain("pin-reset")
        message.write(user)
        message.writeSized(making)
        return digest(message)
    }

    /// What the broker counts: changes of one user's fingers.
    static func enrolmentChange(of user: UInt32) -> [UInt8] {
        var message = domain("enrolment-change")
        message.write(user)
        return digest(message)
    }

    private static func domain(_ kind: String) -> TPMWriter {
        var message = TPMWriter()
        message.writeSized(Array("org.latchkey.presence/v1/\(kind)".utf8))
        return message
    }

    private static func digest(_ message: TPMWriter) -> [UInt8] {
        Array(SHA256.hash(data: message.bytes))
    }
}
