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
