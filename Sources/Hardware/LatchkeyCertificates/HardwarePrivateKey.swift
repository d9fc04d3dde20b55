public import FoundationEssentials
public import Latchkey
public import SwiftASN1
public import X509

/// A hardware key for swift-certificates, which signs certificate requests and self-signed
/// certificates with it.
///
/// Each signature is one call of `Keystore.sign(_:with:for:authorizedBy:)`, which prompts as the
/// key's policy requires. Wrap it in a `Certificate.PrivateKey`, and use the initializers that sign
/// asynchronously: the synchronous ones throw `unsupported`, because they would block.
public struct HardwarePrivateKey: CustomPrivateKey {
    /// The key that signs.
    public let key: HardwareKey
    public let publicKey: Certificate.PublicKey
    private let keystore: any Keystore
    private let prompt: PromptContext
    private let presence: any PresenceAuthority

    /// Creates a key for swift-certificates.
    ///
    /// - Parameters:
    ///   - key: A key of `keystore`.
    ///   - prompt: The prompt for each signature.
    public init(
        _ key: HardwareKey, in keystore: any Keystore, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) {
        publicKey = Certificate.PublicKey(key.publicKey.cryptoKey)
        self.key = key
        self.keystore = keystore
        self.prompt = prompt
        self.presence = presence
    }

    public var defaultSignatureAlgorithm: Certificate.SignatureAlgorithm { .ecdsaWithSHA256 }

    public var supportedSignatureAlgorithms: [Certificate.SignatureAlgorithm] { [.ecdsaWithSHA256] }

    /// Signs with the hardware key.
    ///
    /// - Throws: `KeystoreError` of the keystore, and `unsupported` for another algorithm than
    ///   ECDSA with SHA-256.
    public func signAsynchronously(
        bytes: some DataProtocol & Sendable, signatureAlgorithm: Certificate.SignatureAlgorithm
    ) async throws -> Certificate.Signature {
        guard signatureAlgorithm == .ecdsaWithSHA256 else {
            throw KeystoreError.unsupported(
                "a hardware key signs with ECDSA over P-256 and SHA-256 only",
                recovery: "Use ecdsaWithSHA256."
            ).during("sign with \(signatureAlgorithm)")
        }
        let signature = try await keystore.sign(
            MessageDigest(sha256: Array(bytes)), with: key, for: prompt, authorizedBy: presence)
        return try Certificate.Signature(
            signatureAlgorithm: signatureAlgorithm,
            signatureBytes: ASN1BitString(bytes: ArraySlice(signature.derRepresentation)))
    }

    /// Not supported.
    ///
    /// - Throws: `KeystoreError` with code `unsupported`, always.
    public func signSynchronously(
        bytes: some DataProtocol, signatureAlgorithm: Certificate.SignatureAlgorithm
    ) throws -> Certificate.Signature {
        throw KeystoreError.unsupported(
            "a hardware key signs asynchronously only",
            recovery: "Use the initializer that signs asynchronously."
        ).during("sign synchronously")
    }
}

extension HardwarePrivateKey {
    public static let defaultPEMDiscriminator = "PRIVATE KEY"

    /// Not supported.
    ///
    /// - Throws: `KeystoreError` with code `unsupported`, always: the private key does not leave
    ///   the hardware.
    public func serialize(into coder: inout DER.Serializer) throws {
        throw KeystoreError.unsupported(
            "the private key does not leave the hardware",
            recovery: "Export the public key instead."
        ).during("serialize the private key")
    }
}

extension HardwarePrivateKey: Hashable {
    /// Whether both are the same key. Their prompts may differ.
    public static func == (left: HardwarePrivateKey, right: HardwarePrivateKey) -> Bool {
        left.key == right.key
    }

    public func hash(into hasher: inout Hasher) { hasher.combine(key) }
}

extension Keystore {
    /// Creates a certificate signing request (PKCS #10, RFC 2986) for a key and signs it with the
    /// key: ECDSA over P-256 with SHA-256. It has no attributes.
    ///
    /// - Parameter subject: The subject; `DistinguishedName(rfc4514:)` parses it from text.
    /// - Throws: `KeystoreError` of `sign(_:with:for:authorizedBy:)`, and `invalidInput` for a
    ///   subject that can't be encoded.
    public func certificateSigningRequest(
        subject: DistinguishedName, with key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> CertificateSigningRequest {
        let operation = "create a certificate request"
        do {
            let signer = HardwarePrivateKey(key, in: self, for: prompt, authorizedBy: presence)
            return try await CertificateSigningRequest(
                version: .v1, subject: subject, asyncPrivateKey: Certificate.PrivateKey(signer),
                attributes: CertificateSigningRequest.Attributes(),
                signatureAlgorithm: .ecdsaWithSHA256)
        } catch let error as KeystoreError {
            throw error.during(operation)
        } catch {
            throw KeystoreError.invalidInput("the request's subject can't be encoded (\(error))")
                .during(operation)
        }
    }
}
