internal import FoundationEssentials
internal import Latchkey
internal import TPM2

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
