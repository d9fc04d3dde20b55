internal import Crypto
internal import FoundationEssentials
internal import Latchkey

extension KeyPairRequest {
    /// A sealing key for a policy.
    init(sealing use: Use, id: Data, policy: AccessPolicy) {
        self.init(
            id: id, label: "Latchkey sealing", use: use, isPrivate: policy.requirement != .none,
            alwaysAuthenticates: false)
    }

    /// The `CKA_ID` of the sealing key for a policy, by which it is found again: 16 bytes.
    ///
    /// - Parameter version: ``SealedBox/Message/version`` of the boxes that it opens.
    static func sealingID(for policy: AccessPolicy, version: Int) -> Data {
        let access = policy.requirement == .none ? "open" : "guarded"
        return Data(SHA256.hash(data: Data("Latchkey sealing key \(version): \(access)".utf8)).prefix(16))
    }
}

extension CryptokiError {
    static var unfitSealingKey: CryptokiError {
        CryptokiError(.unsound, reason: "the sealing key on the token has another protection than asked for")
    }
}
