public import FoundationEssentials
public import Latchkey
public import SwiftASN1
public import X509

/// A hardware key as swift-certificates signs with one: for certificate requests and self-signed certificates.
///
/// Each signature is one call of `Keystore.sign(_:with:for:authorizedBy:)`, with the presence that the key's policy
/// asks for. Wrap it in a `Certificate.PrivateKey`, and use the initialisers that sign asynchronously: hardware and
/// people take their time, so the synchronous ones throw `unsupported`.
public struct HardwarePrivateKey: CustomPrivateKey {
    /// The key that signs.
    public let key: HardwareKey
    public let publicKey: Certificate.PublicKey
    private let keystore: any Keystore
    private let prompt: PromptContext
    private let presence: any PresenceAuthority

    /// - Parameters:
    ///   - key: A key of `keystore`.
    ///   - prompt: What a person is told at each signature.
    /// - Throws: `KeystoreError` with code `damaged` when the key's public half is no point on P-256.
    public init(
        _ key: HardwareKey, in keystore: any Keystore, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) throws(KeystoreError) {
        do {
            publicKey = Certificate.PublicKey(try key.publicKey.cryptoKey)
        } catch {
            throw .damaged("use the key ‘\(key.id)’ for certificates", "its public half is not a point on P-256")
        }
        self.key = key
        self.keystore = keystore
        self.prompt = prompt
        self.presence = presence
    }

    public var defaultSignatureAlgorithm: Certificate.SignatureAlgorithm { .ecdsaWithSHA256 }

    public var supportedSignatureAlgorithms: [Certificate.SignatureAlgorithm] { [.ecdsaWithSHA256] }

    /// - Throws: `KeystoreError`: what the keystore throws, and `unsupported` for another algorithm than ECDSA with
    ///   SHA-256.
    public func signAsynchronously(
        bytes: some DataProtocol & Sendable, signatureAlgorithm: Certificate.SignatureAlgorithm
    ) async throws -> Certificate.Signature {
        guard signatureAlgorithm == .ecdsaWithSHA256 else {
            throw KeystoreError.unsupported(
                "sign with \(signatureAlgorithm)", "a hardware key signs with ECDSA over P-256 and SHA-256 only",
                recovery: "Use ecdsaWithSHA256.")
        }
        let signature = try await keystore.sign(
            MessageDigest(sha256: Array(bytes)), with: key, for: prompt, authorizedBy: presence)
        return try Certificate.Signature(
            signatureAlgorithm: signatureAlgorithm,
            signatureBytes: ASN1BitString(bytes: ArraySlice(signature.derRepresentation)))
    }

    /// - Throws: `KeystoreError` with code `unsupported`, always.
    public func signSynchronously(
        bytes: some DataProtocol, signatureAlgorithm: Certificate.SignatureAlgorithm
    ) throws -> Certificate.Signature {
        throw KeystoreError.unsupported(
            "sign at once", "hardware can't answer without being waited for",
            recovery: "Use the initialiser that signs asynchronously.")
    }
}

extension HardwarePrivateKey {
    public static let defaultPEMDiscriminator = "PRIVATE KEY"

    /// - Throws: `KeystoreError` with code `unsupported`, always: the private key does not leave the hardware.
    public func serialize(into coder: inout DER.Serializer) throws {
        throw KeystoreError.unsupported(
            "write the private key down", "it does not leave the hardware", recovery: "Export the public key instead.")
    }
}

extension HardwarePrivateKey: Hashable {
    /// Whether both are the same key, whoever is asked for it.
    public static func == (left: HardwarePrivateKey, right: HardwarePrivateKey) -> Bool { left.key == right.key }

    public func hash(into hasher: inout Hasher) { hasher.combine(key) }
}
