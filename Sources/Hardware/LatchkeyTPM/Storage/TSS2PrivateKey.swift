package import Latchkey
internal import SwiftASN1
internal import TPM2

/// A key file of the type `TSS2 PRIVATE KEY` (draft "ASN.1 Specification for TPM 2.0 Key Files", J.
/// Bottomley), which openssl's tpm2 provider, ssh-tpm-agent and tpm2-tools read.
struct TSS2PrivateKey: Hashable, Sendable {
    /// The type of the object in the file, an object identifier.
    enum Kind: Sendable {
        /// `id-loadablekey`, 2.23.133.10.1.3.
        case loadable
        /// `id-sealedkey`, 2.23.133.10.1.5.
        case sealed

        fileprivate var identifier: ASN1ObjectIdentifier {
            switch self {
            case .loadable: [2, 23, 133, 10, 1, 3]
            case .sealed: [2, 23, 133, 10, 1, 5]
            }
        }
    }

    static let pemType = "TSS2 PRIVATE KEY"

    let kind: Kind
    /// Whether the object has an empty authValue.
    let hasEmptyAuth: Bool
    let parent: TPMHandle
    let publicArea: PublicArea
    var privatePart: PrivateBlob
}

extension TSS2PrivateKey: DERImplicitlyTaggable {
    static var defaultIdentifier: ASN1Identifier { .sequence }

    init(derEncoded node: ASN1Node, withIdentifier identifier: ASN1Identifier) throws {
        self = try DER.sequence(node, identifier: identifier) { nodes in
            let type = try ASN1ObjectIdentifier(derEncoded: &nodes)
            let kind: Kind
            switch type {
            case Kind.loadable.identifier: kind = .loadable
            case Kind.sealed.identifier: kind = .sealed
            default: throw ASN1Error.unexpectedFieldType(node.identifier)
            }
            let emptyAuth = try DER.optionalExplicitlyTagged(
                &nodes, tagNumber: 0, tagClass: .contextSpecific
            ) {
                try Bool(derEncoded: $0)
            }
            // Latchkey writes no policies, imported secrets or RSA parents, so it does not read
            // them.
            let parent = try UInt32(derEncoded: &nodes)
            var publicReader = TPMReader(try DER.octets(&nodes))
            let privatePart = try PrivateBlob(unmarshalling: try DER.octets(&nodes))
            let publicArea = try publicReader.readSized(
                PublicArea.self, maximum: PublicArea.maximumBytes)
            try publicReader.finish()
            return TSS2PrivateKey(
                kind: kind, hasEmptyAuth: emptyAuth ?? false, parent: TPMHandle(rawValue: parent),
                publicArea: publicArea, privatePart: privatePart)
        }
    }

    func serialize(into coder: inout DER.Serializer, withIdentifier identifier: ASN1Identifier)
        throws
    {
        try coder.appendConstructedNode(identifier: identifier) { coder in
            try coder.serialize(kind.identifier)
            if hasEmptyAuth {
                try coder.serialize(
                    true, explicitlyTaggedWithTagNumber: 0, tagClass: .contextSpecific)
            }
            try coder.serialize(parent.rawValue)
            try coder.serialize(octets: TPM2B(publicArea).marshalled)
            try coder.serialize(octets: privatePart.marshalled)
        }
    }
}

extension TPMKeystore {
    /// Exports a key as a `TSS2 PRIVATE KEY` in PEM, which openssl's tpm2 provider, ssh-tpm-agent
    /// and tpm2-tools read.
    ///
    /// The private key stays wrapped by the TPM. Those programs can use a key without a PIN. The
    /// authValue of a key with a PIN is derived from the PIN and a salt that the file does not
    /// contain, so only Latchkey can use it.
    ///
    /// - Throws: `KeystoreError` with code `damaged`, or `wrongDevice` for a key of another
    ///   keystore.
    package static func tss2PrivateKey(of key: HardwareKey) throws(KeystoreError) -> String {
        do throws(KeystoreError) {
            guard key.backend == "tpm" else {
                throw .wrongDevice("the key belongs to a keystore of the type ‘\(key.backend)’")
            }
            do {
                var serializer = DER.Serializer()
                try serializer.serialize(try TPMKeyBlob(key.blob).key)
                return PEMDocument(
                    type: TSS2PrivateKey.pemType, derBytes: serializer.serializedBytes
                ).pemString
            } catch {
                throw KeystoreError.damaged("the key's stored bytes cannot be decoded: \(error)")
            }
        } catch { throw error.during("export a key") }
    }
}
