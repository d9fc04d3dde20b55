internal import Crypto
public import FoundationEssentials
public import Latchkey
internal import SwiftASN1
internal import X509

/// Certificates that a token carries for its keys, so that other programs find both together. A PIV card needs one in a
/// key's slot before OpenSC uses the key.
extension PKCS11Keystore {
    /// The certificates beside a key, DER, those by which a YubiKey attests it included. Asks nobody.
    public func certificates(of key: HardwareKey) async throws(KeystoreError) -> [Data] {
        let operation = "read the token's certificates"
        let blob = try TokenKeyBlob.of(key, operation)
        let sight = try await look(operation, for: blob.name, withHash: blob.publicKeyHash)
        return try await visit(sight, operation) { (session) throws(CryptokiError) in
            try session.certificates(id: blob.name.id).map(\.der)
        }
    }

    /// Stores a certificate beside its key. Asks for the token's PIN.
    ///
    /// - Parameter certificate: X.509, DER, for this key.
    /// - Throws: `KeystoreError`; `invalidInput` for what is no certificate or one for another key, `unsupported` on a
    ///   YubiKey: ykcs11 refuses libp11's template (`CKA_NAME_HASH_ALGORITHM`; `CKR_ATTRIBUTE_TYPE_INVALID`).
    public func storeCertificate(
        _ certificate: Data, for key: HardwareKey, prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        let operation = "store a certificate"
        guard try await look(operation).token.profile.family != .ykcs11 else {
            throw .unsupported(
                operation, "libp11 can't do it through Yubico's module",
                recovery: "Run ‘ykman piv certificates import SLOT FILE’.")
        }
        guard let parsed = try? Certificate(derEncoded: Array(certificate)) else {
            throw .invalidInput(operation, "it is no X.509 certificate in DER")
        }
        guard P256.Signing.PublicKey(parsed.publicKey)?.x963Representation == key.publicKey.x963Representation else {
            throw .invalidInput(operation, "it is for another key")
        }
        let label = key.label ?? "Latchkey"
        try await write(operation, beside: key, prompt, presence) { (token, id) throws(CryptokiError) in
            try token.storeCertificate(certificate, id: id, label: label)
        }
    }

    /// Removes the certificates beside a key, but for those by which the token attests it. Asks for the token's PIN, on a
    /// YubiKey for the management key.
    ///
    /// - Returns: How many there were.
    @discardableResult
    public func removeCertificates(
        of key: HardwareKey, prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> Int {
        try await write("remove a certificate", beside: key, prompt, presence) { (token, id) throws(CryptokiError) in
            try token.removeCertificates(id: id)
        }
    }

    private func write<R: Sendable>(
        _ operation: String, beside key: HardwareKey, _ prompt: PromptContext, _ presence: any PresenceAuthority,
        _ body: @escaping @Sendable (LibP11Token, Data) throws(CryptokiError) -> R
    ) async throws(KeystoreError) -> R {
        let blob = try TokenKeyBlob.of(key, operation)
        let sight = try await look(operation, for: blob.name, withHash: blob.publicKeyHash)
        let role: LoginRole = sight.token.profile.generator == .securityOfficer ? .securityOfficer : .user
        let proof =
            role == .user
            ? try await userProof(sight, for: prompt, operation, presence)
            : try await officerProof(sight, for: prompt, operation, presence)
        let (id, limit) = (blob.name.id, options.token.deadlines.person)
        do throws(CryptokiError) {
            let token = try await sight.token.here()
            let logins = [sight.login, token.login]
            // libp11 waits for ever for a session that it does not get.
            _ = try await token.perform { (session) throws(CryptokiError) in try session.tokenInformation() }
            return try await token.performAlone { (open) throws(CryptokiError) in
                for login in logins { login.forget() }
                let writer = try LibP11Writer(operation, on: token, within: limit)
                defer { writer.end() }
                let session = try open()
                try session.login(role, with: proof)
                defer { try? session.logout() }
                return try writer.write { (token) throws(CryptokiError) in try body(token, id) }
            }
        } catch {
            throw await explained(error, operation, sight)
        }
    }
}
