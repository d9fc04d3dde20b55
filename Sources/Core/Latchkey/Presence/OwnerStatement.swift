internal import Crypto
package import FoundationEssentials

/// What the presence broker signs after it has verified a user for a request that uses no key.
///
/// It signs a message of the form of an approval (TPM 2.0 Part 3 section 23.3), with ``nonce`` as the
/// nonce and ``reference`` as the reference. No policy of a key names such a reference, so the yes
/// opens nothing in the TPM, and an approval is no yes.
package struct OwnerStatement: Hashable, Sendable {
    package static let nonceBytes = 32

    /// The POSIX user whose finger matched.
    package let user: UInt32
    /// The unique name of the requester's connection to the bus.
    package let caller: String
    /// The text that the broker showed.
    package let reason: String
    /// Random bytes of the requester.
    package let nonce: Data

    package init(user: UInt32, caller: String, reason: String, nonce: Data) {
        (self.user, self.caller, self.reason, self.nonce) = (user, caller, reason, nonce)
    }

    /// 32 bytes that begin with another text than the references of all other kinds, before the hash.
    package var reference: [UInt8] {
        var hash = SHA256()
        hash.update(data: Self.sized("org.latchkey.presence/v1/owner"))
        hash.update(data: withUnsafeBytes(of: user.bigEndian) { Data($0) })
        hash.update(data: Self.sized(caller))
        hash.update(data: Self.sized(reason))
        return Array(hash.finalize())
    }

    /// A text after its length, like a `TPM2B`.
    private static func sized(_ text: String) -> Data {
        withUnsafeBytes(of: UInt16(clamping: text.utf8.count).bigEndian) { Data($0) }
            + Data(text.utf8)
    }
}
