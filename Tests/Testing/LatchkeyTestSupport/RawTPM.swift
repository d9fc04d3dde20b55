package import Crypto
internal import FoundationEssentials
package import LatchkeySimulators
package import TPM2
internal import TPM2TCTI

/// A client of a software TPM that makes the keys and statements that our keystore never makes:
/// imported keys, keys below a parent that can leave the TPM, quotes, and statements about any of
/// them.
package final class RawTPM {
    /// A key below a storage key, not loaded.
    package struct Key {
        package let privatePart: PrivateBlob
        package let area: PublicArea
        /// Nil for an imported key.
        package let created: CreatedObject?

        package var name: TPMName { get throws(TPMError) { try area.name } }
    }

    /// Below this key, which is persistent, all keys are created.
    package let parent: TPMObject
    package let tpm: TPM
    private let transport: any TPMTransport

    /// The attributes that show that a key was created in its TPM and cannot leave it.
    package static let born: ObjectAttributes = [.fixedTPM, .fixedParent, .sensitiveDataOrigin]
    /// A branch that permits `TPM2_Certify` to everybody, for the object and for the signer.
    package static let certifyBranch = PolicyDigest().commandCode(.certify)

    package init(_ simulator: SoftwareTPM) throws {
        transport = ResubmittingTransport(try TCTIConnection(simulator.tcti))
        let tpm = TPM(transport)
        let template = Self.storageTemplate(Self.born.union(.noDA))
        parent = try tpm.withPrimary(template, in: .owner) { (primary) throws(TPMError) in
            try tpm.execute(EvictControl(primary, at: .storageRootKey))
            return try TPMObject(handle: .storageRootKey, publicArea: primary.publicArea)
        }
        self.tpm = tpm
    }

    deinit { transport.close() }

    // MARK: Keys

    /// A storage key with these attributes in addition to userWithAuth, restricted and decrypt.
    package static func storageTemplate(_ attributes: ObjectAttributes) -> PublicArea {
        PublicArea(
            attributes: attributes.union([.userWithAuth, .restricted, .decrypt]),
            detail: .ecc(ECCParameters(symmetric: .aes128CFB), ECCPoint(x: [], y: [])))
    }

    /// A P-256 key with these attributes in addition to sign.
    ///
    /// - Parameters:
    ///   - branches: The branches of the policy: none, one, or an OR of several.
    ///   - key: The key; nil in a template.
    package static func signingArea(
        _ attributes: ObjectAttributes, _ branches: [PolicyDigest] = [],
        of key: P256.Signing.PublicKey? = nil
    ) -> PublicArea {
        let policy = branches.count > 1 ? PolicyDigest.or(branches) : branches.first
        let point = Array(key?.rawRepresentation ?? .init())
        return PublicArea(
            attributes: attributes.union(.sign), authPolicy: policy?.bytes ?? [],
            detail: .ecc(
                ECCParameters(scheme: .ecdsaSHA256),
                ECCPoint(x: Array(point.prefix(32)), y: Array(point.dropFirst(32)))
            )
        )
    }

    package func create(_ template: PublicArea, under parent: TPMObject? = nil) throws(TPMError)
        -> Key
    {
        let made = try tpm.execute(Create(template, under: parent ?? self.parent))
        return Key(privatePart: made.privatePart, area: made.publicArea, created: made)
    }

    /// A restricted key that signs statements.
    package func createAttestationKey() throws(TPMError) -> Key {
        try create(Self.signingArea(Self.born.union([.userWithAuth, .restricted, .noDA])))
    }

    /// `TPM2_Import` (TPM 2.0 Part 3 section 13.3) of a software key.
    package func importing(
        _ key: P256.Signing.PrivateKey, _ attributes: ObjectAttributes,
        _ branches: [PolicyDigest] = []
    ) throws(TPMError) -> Key {
        let area = Self.signingArea(attributes, branches, of: key.publicKey)
        var answer = try send(
            0x156, on: [parent.handle.rawValue],
            TPMWriter(TPM2B(), TPM2B(area), TPM2B(Self.sensitive(key)), TPM2B(), TPMAlgorithm.null))
        return Key(privatePart: try answer.read(), area: area, created: nil)
    }

    /// `TPM2_LoadExternal` (section 12.3) with a private part.
    package func loadPrivate(_ key: P256.Signing.PrivateKey, _ attributes: ObjectAttributes)
        throws(TPMError)
    {
        let area = Self.signingArea(attributes, of: key.publicKey)
        _ = try send(
            0x167, on: [], TPMWriter(Self.sensitive(key), TPM2B(area), TPMHandle.null),
            isAuthorized: false)
    }

    /// `TPM2B_SENSITIVE` without an authValue.
    private static func sensitive(_ key: P256.Signing.PrivateKey) -> TPM2B {
        TPM2B(
            TPMWriter(TPMAlgorithm.ecc, TPM2B(), TPM2B(), TPM2B(Array(key.rawRepresentation))).bytes
        )
    }

    /// Loads a key, lends it to `body`, and flushes it.
    package func with<R>(_ key: Key, _ body: (TPMObject) throws(TPMError) -> R) throws(TPMError)
        -> R
    {
        try tpm.withLoaded(key.privatePart, key.area, under: parent, body)
    }

    /// Removes all objects that an attempt left in the TPM.
    package func flush() {
        for handle in (try? tpm.handles(from: .transientFirst)) ?? [] {
            try? tpm.execute(FlushContext(handle))
        }
    }

    // MARK: Statements

    /// `TPM2_Certify` with the empty authValue of the key and of the signer.
    package func certify(
        _ key: Key, by signer: Key, challenge: [UInt8]
    ) throws(TPMError) -> SignedAttest {
        try with(key) { (object) throws(TPMError) in
            try certify(object, by: signer, challenge: challenge)
        }
    }

    package func certify(
        _ object: TPMObject, by signer: Key, challenge: [UInt8]
    ) throws(TPMError) -> SignedAttest {
        try with(signer) { (signer) throws(TPMError) in
            try tpm.execute(Certify(object, by: signer, challenge: challenge))
        }
    }

    /// `TPM2_Certify` with a key of ``certifyBranch`` as the signer.
    package func certifyParent(
        bySatisfying branches: [PolicyDigest], of signer: Key, challenge: [UInt8]
    ) throws(TPMError) -> SignedAttest {
        try with(signer) { (signer) throws(TPMError) in
            try tpm.withSession(.policy, saltedTo: nil) { (session) throws(TPMError) in
                try tpm.execute(PolicyCommandCode(.certify), in: session)
                try tpm.execute(PolicyOR(branches), in: session)
                return try tpm.execute(
                    Certify(parent, by: signer, challenge: challenge),
                    authorizedBy: .emptyPassword, .lastUse(of: session))
            }
        }
    }

    /// `TPM2_Quote` (section 18.4) of PCR 7.
    package func quote(by signer: Key, challenge: [UInt8]) throws(TPMError) -> SignedAttest {
        try with(signer) { (object) throws(TPMError) in
            // One selection: SHA-256, a bitmap of 3 bytes, PCR 7.
            var answer = try send(
                0x158, on: [object.handle.rawValue],
                TPMWriter(
                    TPM2B(challenge), TPMAlgorithm.null, UInt32(1), TPMAlgorithm.sha256, UInt8(3),
                    UInt8(0x80),
                    UInt8(0),
                    UInt8(0)))
            return try answer.read()
        }
    }

    /// `TPM2_Hash` (section 15.4).
    ///
    /// - Returns: The ticket: null for data that could be a statement of the TPM.
    package func hashTicket(_ data: [UInt8]) throws(TPMError) -> Ticket {
        var answer = try send(
            0x17d, on: [], TPMWriter(TPM2B(data), TPMAlgorithm.sha256, Hierarchy.owner.handle),
            isAuthorized: false)
        _ = try answer.readSized(maximum: 64)
        return try answer.read()
    }

    /// Signs a digest with the key's empty authValue.
    package func sign(_ digest: [UInt8], with key: Key) throws(TPMError) -> TPMSignature {
        try with(key) { (object) throws(TPMError) in
            try tpm.execute(Sign(digest, with: object))
        }
    }

    // MARK: Raw commands

    /// Sends a command, with the empty password for its first handle, and reads the response up to
    /// its parameters.
    private func send(
        _ code: UInt32, on handles: [UInt32], _ parameters: TPMWriter, isAuthorized: Bool = true
    ) throws(TPMError) -> TPMReader {
        var body = TPMWriter()
        for handle in handles { body.write(handle) }
        if isAuthorized {
            body.write(UInt32(9), UInt32(0x4000_0009), UInt16(0), UInt8(0), UInt16(0))
        }
        body.write(parameters.bytes)
        let tag: UInt16 = isAuthorized ? 0x8002 : 0x8001
        let command = TPMWriter(tag, UInt32(body.bytes.count + 10), code).bytes + body.bytes
        var reader = TPMReader(try transport.exchange(command))
        _ = try reader.readBytes(6)
        let answer = ResponseCode(rawValue: try reader.read())
        guard answer.rawValue == 0 else {
            throw TPMError(.response(answer), reason: answer.description)
        }
        if isAuthorized { _ = try reader.read(UInt32.self) }
        return reader
    }
}
