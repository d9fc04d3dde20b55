package import FoundationEssentials
package import Latchkey

/// The arguments and the answer of `CertifyKey`.
extension PresenceWire {
    /// `public, private, challenge`.
    static func arguments(_ key: WrappedAttestationKey, challenge: Data) -> [BusValue] {
        [.bytes(Array(key.publicArea)), .bytes(Array(key.privatePart)), .bytes(Array(challenge))]
    }

    package static func certification(_ arguments: [BusValue]) -> (
        key: WrappedAttestationKey, challenge: Data
    )? {
        guard arguments.count == 3, let publicArea = arguments[0].bytes,
            let privatePart = arguments[1].bytes,
            let challenge = arguments[2].bytes
        else { return nil }
        return (
            WrappedAttestationKey(publicArea: Data(publicArea), privatePart: Data(privatePart)),
            Data(challenge)
        )
    }

    /// `key, statement, signature`.
    package static func arguments(_ certified: CertifiedApprovalKey) -> [BusValue] {
        [
            .bytes(Array(certified.publicArea)), .bytes(Array(certified.statement)),
            .bytes(Array(certified.signature.rawRepresentation)),
        ]
    }

    static func certifiedKey(_ arguments: [BusValue]) -> CertifiedApprovalKey? {
        guard arguments.count == 3, let publicArea = arguments[0].bytes,
            let statement = arguments[1].bytes,
            let raw = arguments[2].bytes, let signature = ECDSASignature(rawRepresentation: raw)
        else { return nil }
        return CertifiedApprovalKey(
            publicArea: Data(publicArea), statement: Data(statement), signature: signature)
    }
}

extension SystemPresenceBroker {
    /// Lets the TPM state that the broker's approval key is in it. Only for the administrator.
    package func certifyKey(
        by key: WrappedAttestationKey, challenge: Data
    ) async throws(KeystoreError) -> CertifiedApprovalKey {
        try await call(
            .certifyKey, PresenceWire.arguments(key, challenge: challenge),
            PresenceWire.certifiedKey)
    }
}
