#if Certificates || Testing || Programs
    internal import Crypto
    internal import CryptoExtras
    internal import FoundationEssentials
    internal import TPM2

    /// A credential that only one TPM can open, and only for one of its keys: MakeCredential (TPM
    /// 2.0 Part 1 section 24 and annexes B.10.4 and C.6.4).
    struct ProtectedCredential: Hashable, Sendable {
        /// `TPMS_ID_OBJECT`: the content of the `TPM2B_ID_OBJECT` that `TPM2_ActivateCredential`
        /// expects.
        let blob: Data
        /// The encrypted seed, the content of a `TPM2B_ENCRYPTED_SECRET`: a `TPMS_ECC_POINT`, or
        /// 256 bytes for RSA.
        let encryptedSeed: Data

        /// The label of the seed.
        private static let label = "IDENTITY"

        /// Protects a credential.
        ///
        /// - Parameters:
        ///   - credential: At most 32 bytes.
        ///   - key: The endorsement key from its verified certificate. The key's kind determines
        ///     the hash algorithm and the cipher (TCG EK Credential Profile, templates L-1, L-2,
        ///     H-1, H-2 and H-3).
        ///   - name: The Name of the key that the TPM must also have.
        /// - Throws: ``AttestationError`` with code `wrongEndorsement` for P-521, and for RSA
        ///   keys of other sizes than 2048 bits.
        init(_ credential: Data, for key: CertificateKey, name: TPMName) throws(AttestationError) {
            switch key {
            case .p256(let key):
                try self.init(
                    credential, for: key, name: name, ephemeralKey: P256.KeyAgreement.PrivateKey())
            case .p384(let key):
                try self.init(
                    credential, for: key, name: name, ephemeralKey: P384.KeyAgreement.PrivateKey())
            case .p521, .rsaPSS:
                throw AttestationError(
                    .wrongEndorsement, "an endorsement key of this kind is not supported")
            case .rsa(let modulus, let exponent):
                try self.init(
                    credential, modulus: modulus, exponent: exponent, name: name,
                    seed: SymmetricKey(size: .bits256))
            }
        }

        /// Protects a credential for a P-256 key with SHA-256 and AES-128.
        init(
            _ credential: Data, for key: P256.Signing.PublicKey, name: TPMName,
            ephemeralKey: P256.KeyAgreement.PrivateKey
        ) throws(AttestationError) {
            let own = ephemeralKey.publicKey.x963Representation
            do {
                let other = try P256.KeyAgreement.PublicKey(
                    x963Representation: key.x963Representation)
                let secret = try ephemeralKey.sharedSecretFromKeyAgreement(with: other)
                let seed = Seed<SHA256>(
                    secret, label: Self.label, partyU: Self.x(of: own),
                    partyV: Self.x(of: key.x963Representation))
                blob = try seed.protect(credential, name: name, cipherBits: 128)
            } catch {
                throw Self.failure(error)
            }
            encryptedSeed = Self.point(own)
        }

        /// Protects a credential for a P-384 key with SHA-384 and AES-256.
        init(
            _ credential: Data, for key: P384.Signing.PublicKey, name: TPMName,
            ephemeralKey: P384.KeyAgreement.PrivateKey
        ) throws(AttestationError) {
            let own = ephemeralKey.publicKey.x963Representation
            do {
                let other = try P384.KeyAgreement.PublicKey(
                    x963Representation: key.x963Representation)
                let secret = try ephemeralKey.sharedSecretFromKeyAgreement(with: other)
                let seed = Seed<SHA384>(
                    secret, label: Self.label, partyU: Self.x(of: own),
                    partyV: Self.x(of: key.x963Representation))
                blob = try seed.protect(credential, name: name, cipherBits: 256)
            } catch {
                throw Self.failure(error)
            }
            encryptedSeed = Self.point(own)
        }

        /// Protects a credential for an RSA key of 2048 bits with SHA-256 and AES-128.
        ///
        /// - Parameter seed: 32 bytes.
        init(
            _ credential: Data, modulus: Data, exponent: Data, name: TPMName, seed: SymmetricKey
        ) throws(AttestationError) {
            guard modulus.count == 256, modulus.first.map({ $0 & 0x80 != 0 }) == true else {
                throw AttestationError(
                    .wrongEndorsement,
                    "RSA endorsement keys of other sizes than 2048 bits are not supported")
            }
            // The label includes the terminating zero (Part 1 annex B.4).
            let encrypted = LabelledEncryption.encrypt(
                seed.withUnsafeBytes { Array($0) }, modulus: modulus, exponent: exponent,
                label: Self.label + "\0")
            guard let encrypted else {
                throw AttestationError(
                    .wrongEndorsement, "OpenSSL cannot encrypt to the RSA endorsement key")
            }
            do {
                blob = try Seed<SHA256>(seed).protect(credential, name: name, cipherBits: 128)
            } catch {
                throw Self.failure(error)
            }
            encryptedSeed = encrypted
        }

        private static func failure(_ error: any Error) -> AttestationError {
            AttestationError(
                .wrongEndorsement,
                "no credential can be protected for the endorsement key: \(error)")
        }

        /// The x coordinate of an uncompressed point.
        private static func x(of point: Data) -> Data { point.dropFirst().prefix(point.count / 2) }

        /// A `TPMS_ECC_POINT` from an uncompressed point.
        private static func point(_ point: Data) -> Data {
            Data(
                TPMWriter(TPM2B(Array(x(of: point))), TPM2B(Array(point.suffix(point.count / 2))))
                    .bytes)
        }
    }

    /// The secret from which the keys of a protected credential are derived, as long as a digest.
    private struct Seed<Hash: HashFunction> {
        private let key: SymmetricKey

        init(_ key: SymmetricKey) { self.key = key }

        /// KDFe: SP800-56A with one block (TPM 2.0 Part 1 section 11.4.10.3).
        init(_ secret: SharedSecret, label: String, partyU: Data, partyV: Data) {
            var hash = Hash()
            hash.update(data: UInt32(1).marshalled)
            secret.withUnsafeBytes { hash.update(bufferPointer: $0) }
            hash.update(data: Array(label.utf8) + [0] + partyU + partyV)
            key = SymmetricKey(data: Data(hash.finalize()))
        }

        /// KDFa: SP800-108 in counter mode with one block (TPM 2.0 Part 1 section 11.4.10.2).
        private func derive(_ label: String, _ context: [UInt8], bits: Int) -> SymmetricKey {
            let message =
                UInt32(1).marshalled + Array(label.utf8) + [0] + context
                + UInt32(truncatingIfNeeded: bits).marshalled
            return SymmetricKey(
                data: Data(HMAC<Hash>.authenticationCode(for: message, using: key)).prefix(bits / 8)
            )
        }

        /// Encrypts a credential, and authenticates it together with the Name.
        ///
        /// - Returns: `TPMS_ID_OBJECT`.
        func protect(_ credential: Data, name: TPMName, cipherBits: Int) throws -> Data {
            let iv = try AES._CFB.IV(ivBytes: [UInt8](repeating: 0, count: 16))
            let encrypted = try AES._CFB.encrypt(
                TPM2B(Array(credential)).marshalled,
                using: derive("STORAGE", name.bytes, bits: cipherBits), iv: iv)
            let mac = HMAC<Hash>.authenticationCode(
                for: encrypted + name.bytes,
                using: derive("INTEGRITY", [], bits: Hash.Digest.byteCount * 8))
            return Data(TPM2B(Array(mac)).marshalled) + encrypted
        }
    }
#endif
