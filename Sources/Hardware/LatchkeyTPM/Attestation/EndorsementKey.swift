internal import FoundationEssentials
internal import Latchkey
internal import TPM2

/// The endorsement keys of the TPM with their certificates (TCG EK Credential Profile section 2.2).
///
/// Most TPMs have one on a curve and an RSA key, whose certificates can have different issuers. A
/// server chooses the one whose issuer it trusts.
struct EndorsementKeys: Hashable, Sendable {
    /// The maximum number of certificates, as servers accept them, and their maximum bytes together.
    static let (maximumCount, maximumBytes) = (8, 8192)

    /// At least one. The TPM holds the first one; the others may be those of earlier keys.
    let keys: [EndorsementKey]
    /// The issuers' certificates that the TPM holds, DER without padding.
    let issuers: [Data]

    /// The certificate of the first key, the issuers', and those of the other keys as far as servers
    /// accept as many.
    var certificates: [Data] {
        let own = keys.map(\.certificate)
        var bytes = 0
        return (own.prefix(1) + issuers + own.dropFirst()).prefix(Self.maximumCount).filter {
            certificate in
            guard bytes + certificate.count <= Self.maximumBytes else { return false }
            bytes += certificate.count
            return true
        }
    }
}

/// An endorsement key of the TPM with its certificate.
struct EndorsementKey: Hashable, Sendable {
    /// The place of the private key.
    enum Location: Hashable, Sendable {
        case persistent(TPMHandle, PublicArea)
        /// The TPM derives it from the seed of the endorsement hierarchy for each use.
        case template(PublicArea)
    }

    let location: Location
    /// DER without padding.
    let certificate: Data

    /// Whether a secret for `TPM2_ActivateCredential` with this many bytes can be for this key: an
    /// RSA ciphertext as long as the modulus, or a point on its curve (`TPMS_ECC_POINT`).
    func accepts(secretOf count: Int) -> Bool {
        let publicArea =
            switch location {
            case .persistent(_, let publicArea), .template(let publicArea): publicArea
            }
        return switch publicArea.detail {
        case .rsa: count == 256
        case .ecc(let parameters, _): count <= (parameters.curve == .nistP256 ? 68 : 100)
        default: false
        }
    }
}

/// A standard endorsement key: the index of its certificate and its template.
private struct EndorsementProfile {
    /// The NV index of the certificate.
    let index: TPMHandle
    let template: PublicArea

    /// The handle at which provisioning tools keep the key: the same low byte, and 1 and 2 for the
    /// templates L-1 and L-2.
    var handle: TPMHandle {
        switch index.rawValue {
        case 0x01c0_0002: TPMHandle(rawValue: 0x8101_0001)
        case 0x01c0_000a: TPMHandle(rawValue: 0x8101_0002)
        default: TPMHandle(rawValue: 0x8101_0000 | index.rawValue & 0xff)
        }
    }

    /// Keys on elliptic curves first: creating and using an RSA key takes seconds in some chips.
    static let all: [EndorsementProfile] = [
        EndorsementProfile(
            0x01c0_000a, low(.ecc(aes(128, .nistP256), ECCPoint(x: zeros(32), y: zeros(32))))),
        EndorsementProfile(
            0x01c0_0014,
            high(.sha256, policyB256, .ecc(aes(128, .nistP256), ECCPoint(x: [], y: [])))),
        EndorsementProfile(
            0x01c0_0016,
            high(.sha384, policyB384, .ecc(aes(256, .nistP384), ECCPoint(x: [], y: [])))),
        EndorsementProfile(0x01c0_0002, low(.rsa(rsa(2048), modulus: zeros(256)))),
        EndorsementProfile(0x01c0_0012, high(.sha256, policyB256, .rsa(rsa(2048), modulus: []))),
    ]

    private init(_ index: UInt32, _ template: PublicArea) {
        self.index = TPMHandle(rawValue: index)
        self.template = template
    }

    private static let attributes: ObjectAttributes = [
        .fixedTPM, .fixedParent, .sensitiveDataOrigin, .adminWithPolicy, .restricted, .decrypt,
    ]

    /// A template of the low range, whose policy is `PolicySecret(TPM_RH_ENDORSEMENT)`.
    private static func low(_ detail: PublicArea.Detail) -> PublicArea {
        PublicArea(
            attributes: attributes,
            authPolicy: PolicyDigest().secret(of: Hierarchy.endorsement.name).bytes,
            detail: detail)
    }

    /// A template of the high range, which the empty password authorizes too.
    private static func high(_ hash: TPMAlgorithm, _ policy: [UInt8], _ detail: PublicArea.Detail)
        -> PublicArea
    {
        PublicArea(
            nameAlgorithm: hash, attributes: attributes.union(.userWithAuth), authPolicy: policy,
            detail: detail)
    }

    private static func aes(_ bits: UInt16, _ curve: ECCCurve) -> ECCParameters {
        ECCParameters(symmetric: bits == 128 ? .aes128CFB : .aes256CFB, curve: curve)
    }

    private static func rsa(_ bits: UInt16) -> RSAParameters {
        RSAParameters(symmetric: .aes128CFB, keyBits: bits)
    }

    private static func zeros(_ count: Int) -> [UInt8] { [UInt8](repeating: 0, count: count) }

    /// PolicyB with SHA-256 and SHA-384 (TCG EK Credential Profile annex B.6).
    private static let policyB256 = bytes(
        0xca3d_0a99_a2b9_3906, 0xf7a3_3424_14ef_cfb3, 0xa385_d44c_d1fd_4590, 0x89d1_9b50_71c0_b7a0)
    private static let policyB384 = bytes(
        0xb26e_7d28_d11a_50bc, 0x53d8_82bc_f5fd_3a1a, 0x0741_48bb_35d3_b4e4, 0xcb1c_0ad9_bde4_19ca,
        0xcb47_ba09_6996_4615, 0x0f9f_c000_f3f8_0e12)

    private static func bytes(_ words: UInt64...) -> [UInt8] { words.flatMap(\.marshalled) }
}

extension TPM {
    /// The first index of certificates, and the number of indices up to the last one of issuers'
    /// certificates.
    private static let certificateIndices = (
        first: TPMHandle(rawValue: 0x01c0_0000), count: UInt32(0x200)
    )

    /// Finds the endorsement keys that this TPM holds, with their certificates: GetCapability, then
    /// NV_ReadPublic and NV_Read for each certificate, and ReadPublic for each key.
    ///
    /// Creates at most one key to compare it with its certificate, because some chips need seconds
    /// for an RSA key.
    ///
    /// - Returns: nil if no certificate in the TPM is for a key that it holds.
    func endorsementKeys() throws(TPMError) -> EndorsementKeys? {
        let (first, count) = Self.certificateIndices
        let range = first.rawValue..<first.rawValue + count
        let present = try handles(from: first, count: count).filter { range.contains($0.rawValue) }
        var keys: [EndorsementKey] = []
        for profile in EndorsementProfile.all where present.contains(profile.index) {
            guard
                let certificate = try certificates(at: profile.index).first,
                let facts = try? CertificateFacts(certificate),
                let location = try location(of: profile, facts, isFirst: keys.isEmpty)
            else { continue }
            keys.append(EndorsementKey(location: location, certificate: Data(certificate)))
        }
        guard !keys.isEmpty else { return nil }
        var issuers: [Data] = []
        for index in present where index.rawValue & 0x1ff >= 0x100 {
            issuers += try certificates(at: index).map { Data($0) }
        }
        return EndorsementKeys(keys: keys, issuers: issuers)
    }

    /// The certificates in an index. None if the TPM does not read it with the empty authValue:
    /// another program defined it, or nothing was written.
    private func certificates(at handle: TPMHandle) throws(TPMError) -> [[UInt8]] {
        let index = try execute(NVReadPublic(handle))
        let attributes = index.publicArea.attributes
        // With dictionary-attack protection, a refusal would count as a wrong PIN.
        guard attributes.isSuperset(of: [.written, .authRead, .noDA]) else { return [] }
        do { return CertificateFacts.split(try nvRead(index)) } catch {
            switch error.responseCode?.base {
            case .badAuth, .authFail, .authUnavailable, .authType, .policyFail, .nvUninitialized,
                .nvLocked, .nvAuthorization:
                return []
            default: throw error
            }
        }
    }

    /// Lends an endorsement key.
    func withEndorsementKey<R>(
        _ key: EndorsementKey, _ body: (TPMObject) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        switch key.location {
        case .persistent(let handle, let publicArea):
            return try body(try TPMObject(handle: handle, publicArea: publicArea))
        case .template(let template): return try withPrimary(template, in: .endorsement, body)
        }
    }

    /// Finds the key of a certificate: at its usual handle, at another persistent handle, or by its
    /// template.
    ///
    /// - Parameter isFirst: Whether to compare the template's key with the certificate.
    private func location(
        of profile: EndorsementProfile, _ facts: CertificateFacts, isFirst: Bool
    ) throws(TPMError) -> EndorsementKey.Location? {
        if let area = try persistentArea(profile.handle), facts.isFor(area) {
            return .persistent(profile.handle, area)
        }
        let first = TPMHandle(rawValue: 0x8101_0000)
        for handle in try handles(from: first, count: 256)
        where handle.rawValue >> 16 == 0x8101 && handle != profile.handle {
            if let area = try persistentArea(handle), facts.isFor(area) {
                return .persistent(handle, area)
            }
        }
        guard isFirst else { return .template(profile.template) }
        do {
            let isFound = try withPrimary(profile.template, in: .endorsement) {
                facts.isFor($0.publicArea)
            }
            return isFound ? .template(profile.template) : nil
        } catch {
            // The TPM does not support this kind of key, so the certificate is not for a key in it.
            switch error.responseCode?.base {
            case .curve, .symmetric, .scheme, .value, .hash, .size, .type: return nil
            default: throw error
            }
        }
    }

    private func persistentArea(_ handle: TPMHandle) throws(TPMError) -> PublicArea? {
        do {
            return try execute(ReadPublic(handle)).publicArea
        } catch {
            guard error.responseCode?.base == .handle else { throw error }
            return nil
        }
    }
}
