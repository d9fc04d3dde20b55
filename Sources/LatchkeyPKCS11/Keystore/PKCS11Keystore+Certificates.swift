internal import Crypto
public import FoundationEssentials
public import Latchkey
internal import SwiftASN1
internal import Synchronization
internal import X509

/// Certificates on the token, for other programs that use the token's keys. A PIV card requires a certificate in a key's slot
/// before OpenSC uses the key.
extension PKCS11Keystore {
    /// Reads the certificates for a key, in DER, including a YubiKey's attestation. Does not prompt.
    package func certificates(of key: HardwareKey) async throws(KeystoreError) -> [Data] {
        let operation = "read the token's certificates"
        let blob = try TokenKeyBlob.of(key, operation)
        let snapshot = try await takeSnapshot(operation, for: blob.name, withHash: blob.publicKeyHash)
        return try await inspect(snapshot.token, operation) { (session) throws(CryptokiError) in
            try session.certificates(id: blob.name.id).map(\.der)
        }
    }

    /// Stores a certificate for a key on the token. Prompts for the token's PIN.
    ///
    /// - Parameter certificate: X.509, DER, at most 16 KiB, for this key.
    /// - Throws: `KeystoreError`; `invalidInput` if it is not a certificate or is for another key, `unsupported` on a YubiKey
    ///   through Yubico's module.
    public func storeCertificate(
        _ certificate: Data, for key: HardwareKey, prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        let operation = "store a certificate"
        guard try await takeSnapshot(operation).token.module.profile.family != .ykcs11 else {
            throw .unsupported(
                operation, "Yubico's module does not support it",
                recovery: "Run `ykman piv certificates import SLOT FILE`.")
        }
        guard certificate.count <= TokenCertificate.maximumBytes else {
            throw .invalidInput(operation, "it is larger than \(TokenCertificate.maximumBytes) bytes")
        }
        guard let parsed = try? Certificate(derEncoded: Array(certificate)) else {
            throw .invalidInput(operation, "it is not an X.509 certificate in DER")
        }
        guard P256.Signing.PublicKey(parsed.publicKey)?.x963Representation == key.publicKey.x963Representation else {
            throw .invalidInput(operation, "it is for another key")
        }
        let label = key.label ?? "Latchkey"
        let hasRun = Mutex(false)
        try await write(operation, for: key, prompt, presence) { (session, id) throws(CryptokiError) in
            // The first run may have stored it before the session was lost.
            let isRepeated = hasRun.withLock { hasRun in
                defer { hasRun = true }
                return hasRun
            }
            if isRepeated, try session.certificates(id: id).contains(where: { $0.der == certificate }) { return }
            try session.storeCertificate(parsed, der: certificate, id: id, label: label)
        }
    }

    /// Deletes the certificates for a key from the token, except the attestation. Prompts for the token's PIN, on a YubiKey for
    /// the management key.
    ///
    /// - Returns: The number of deleted certificates.
    @discardableResult
    package func removeCertificates(
        of key: HardwareKey, prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> Int {
        try await write("remove a certificate", for: key, prompt, presence) { (session, id) throws(CryptokiError) in
            // Reads no values, so that an object that cannot be read can be deleted.
            var count = 0
            for object in try session.objects(.certificate, id: id) {
                guard !TokenCertificate.isAttestation(label: try session.label(of: object)) else { continue }
                try session.destroy(object)
                count += 1
            }
            return count
        }
    }

    private func write<R: Sendable>(
        _ operation: String, for key: HardwareKey, _ prompt: PromptContext, _ presence: any PresenceAuthority,
        _ body: @escaping @Sendable (Session, Data) throws(CryptokiError) -> R
    ) async throws(KeystoreError) -> R {
        let blob = try TokenKeyBlob.of(key, operation)
        let snapshot = try await takeSnapshot(operation, for: blob.name, withHash: blob.publicKeyHash)
        let role: LoginRole = snapshot.token.module.profile.generator == .securityOfficer ? .securityOfficer : .user
        let proof =
            role == .user
            ? try await userProof(snapshot, for: prompt, operation, presence)
            : try await officerProof(snapshot, for: prompt, operation, presence)
        let (id, login) = (blob.name.id, snapshot.login)
        do {
            return try await snapshot.token.perform { (session) throws(CryptokiError) in
                login.forget()
                try session.logout()
                try session.login(role, with: proof)
                defer { try? session.logout() }
                return try body(session, id)
            }
        } catch {
            throw await explained(error, operation, snapshot)
        }
    }
}
