internal import Crypto
internal import Latchkey
internal import TPM2

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
