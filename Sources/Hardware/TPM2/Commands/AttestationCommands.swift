// Attestation commands, Part 3 sections 18 and 31.16. In all of them, the signer is a restricted
// signing key without an authValue, whose public area has a scheme. The challenge is the
// verifier's: at most 64 bytes, and at most the digest of the TPM's largest hash algorithm.

/// `TPM2_Certify` (section 18.2): attests that an object is in this TPM.
///
/// The first authorization is in the ADMIN role of the object, the second in the USER role of the
/// signer. A policy session with `PolicyCommandCode(Certify)` serves both roles, so no key that
/// needs a proof for its signatures may have such a branch.
package struct Certify: TPMCommand {
    package typealias Response = SignedAttest
    package static let code = TPMCommandCode.certify
    package static let authorizedHandles = 2
    package let entities: [NamedHandle]
    private let challenge: [UInt8]

    package init(_ object: TPMObject, by signer: TPMObject, challenge: [UInt8]) {
        entities = NamedHandle.area(object, signer)
        self.challenge = challenge
    }

    package func marshal(into writer: inout TPMWriter) {
        writer.write(TPM2B(challenge), Scheme.null)
    }
}

/// `TPM2_CertifyCreation` (section 18.3): attests that this TPM created an object. Requires no
/// authorization of the object.
package struct CertifyCreation: TPMCommand {
    package typealias Response = SignedAttest
    package static let code = TPMCommandCode.certifyCreation
    package static let authorizedHandles = 1
    package let entities: [NamedHandle]
    private let creationHash: [UInt8]
    private let creationTicket: Ticket
    private let challenge: [UInt8]

    package init(
        of object: TPMObject, creationHash: [UInt8], creationTicket: Ticket, challenge: [UInt8],
        by signer: TPMObject
    ) {
        entities = NamedHandle.area(signer, object)
        self.creationHash = creationHash
        self.creationTicket = creationTicket
        self.challenge = challenge
    }

    package func marshal(into writer: inout TPMWriter) {
        writer.write(TPM2B(challenge), TPM2B(creationHash), Scheme.null, creationTicket)
    }
}

/// `TPM2_NV_Certify` (section 31.16): attests the whole content of an index. The authorizations are
/// of the signer and of the index.
package struct NVCertify: TPMCommand {
    package typealias Response = SignedAttest
    package static let code = TPMCommandCode.nvCertify
    package static let authorizedHandles = 2
    package let entities: [NamedHandle]
    private let size: UInt16
    private let challenge: [UInt8]

    package init(_ index: NVIndex, by signer: TPMObject, challenge: [UInt8]) {
        entities = NamedHandle.area(signer, index, index)
        size = index.publicArea.dataSize
        self.challenge = challenge
    }

    package func marshal(into writer: inout TPMWriter) {
        writer.write(TPM2B(challenge), Scheme.null, size, UInt16(0))
    }
}
