internal import FoundationEssentials
internal import Latchkey

/// A key pair that was just made or adopted, and what the token says of it.
struct BornKey: Sendable {
    let id: Data
    let publicKey: PublicKey
    let attributes: TokenKey.Attributes
    let attestation: PIVAttestation?

    init(_ key: TokenKey, attestation: PIVAttestation?) {
        id = key.id
        publicKey = key.publicKey
        attributes = key.attributes
        self.attestation = attestation
    }
}
