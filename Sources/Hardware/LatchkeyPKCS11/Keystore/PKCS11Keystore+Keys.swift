public import FoundationEssentials
public import Latchkey
internal import SwiftASN1
internal import X509

extension PKCS11Keystore {
    /// Deletes a key. Prompts for the PIN of a PIN-protected key.
    ///
    /// An adopted key stays on the token, because Latchkey did not create it.
    ///
    /// - Parameter presence: With nil, deletes the parts that need no login: all of a key without a
    ///   PIN, and the public half of a PIN-protected one, which Latchkey then no longer uses.
    /// - Throws: `KeystoreError`; `unsupported` if the module can't delete keys.
    public func delete(
        _ key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: (any PresenceAuthority)?
    ) async throws(KeystoreError) {
        do throws(KeystoreError) {
            guard let (blob, snapshot) = try await deletable(key) else { return }
            guard let presence else {
                return try await snapshot.token.inspect { (session) throws(CryptokiError) in
                    try session.destroyKey(id: blob.name.id, withHash: blob.publicKeyHash)
                }
            }
            try await use(snapshot, under: blob.terms.policy, for: prompt, presence) {
                (session, _) throws(CryptokiError) in
                try session.destroyKey(id: blob.name.id, withHash: blob.publicKeyHash)
            }
        } catch {
            throw error.during("delete a key")
        }
    }

    /// - Returns: nil if there is nothing to delete.
    private func deletable(_ key: HardwareKey) async throws(KeystoreError) -> (
        TokenKeyBlob, TokenSnapshot
    )? {
        let blob = try TokenKeyBlob.of(key)
        guard !blob.isAdopted else { return nil }
        let snapshot = try await takeSnapshot(
            for: blob.name.id, on: blob.name, withHash: blob.publicKeyHash)
        // A different key with the same ID is not Latchkey's to delete.
        if let publicKey = snapshot.publicKey, publicKey.fingerprint != blob.publicKeyHash {
            return nil
        }
        guard snapshot.module.deletesKeys else {
            throw .unsupported(
                "the module can't delete keys from this token, even if it reports success",
                recovery: Recovery(
                    "Overwrite or erase the slot with the card's own tool (YubiKey: `ykman piv keys delete` from "
                        + "firmware 5.7 on), and remove the entry here. The key can't be used without its PIN.",
                    .forgetKey))
        }
        return (blob, snapshot)
    }
}

/// A key on a token, created by any program.
package struct TokenKeyListing: Hashable, Sendable {
    /// A URI by which the key can be adopted: token, module, `id`, and `object` if another key has
    /// the same ID; nil for a key that can't be adopted.
    package let uri: String?
    /// `CKA_ID`.
    package let id: Data
    /// The slot of a PIV card.
    package let slot: PIVSlot?
    /// `CKA_LABEL`.
    package let label: String
    /// nil for a key of another type than P-256, which can't be used.
    package let publicKey: PublicKey?
    /// Why the key can't be adopted, as a clause.
    package let problem: String?
}

extension PKCS11Keystore {
    /// The keys that the token shows without a login, Latchkey's and others. Does not prompt.
    package func keys() async throws(KeystoreError) -> [TokenKeyListing] {
        do throws(KeystoreError) {
            let snapshot = try await takeSnapshot()
            let keys = try await snapshot.token.inspect { (session) throws(CryptokiError) in
                try session.visibleKeys()
            }
            return keys.map { key in
                let slot = snapshot.profile.isPIV ? PIVSlot(id: key.id) : nil
                let problem =
                    if key.label == KeyPairRequest.sealingLabel {
                        "Latchkey seals secrets with it, which are lost if it is deleted"
                    } else if snapshot.profile.isPIV, slot == nil {
                        // For example, the key that signs a YubiKey's attestations.
                        "it is in none of the slots for a user's keys"
                    } else {
                        key.problem
                    }
                let name = TokenName(snapshot.information, id: key.id)
                let uri = name.uri(
                    inModule: snapshot.token.module.path,
                    keyLabel: key.sharesID ? key.label : nil)
                return TokenKeyListing(
                    uri: problem == nil ? uri : nil,
                    id: key.id, slot: slot,
                    label: key.label, publicKey: key.publicKey, problem: problem)
            }
        } catch {
            throw error.during("list the token's keys")
        }
    }

    /// The URI of a stored key's token with the key's `id`, without a module. Needs neither token
    /// nor module.
    package static func location(of key: HardwareKey) throws(KeystoreError) -> String {
        do throws(KeystoreError) {
            return try TokenKeyBlob.of(key).name.uri
        } catch {
            throw error.during("find a key")
        }
    }

    /// Whether a stored key was adopted. Latchkey never deletes such a key from its token.
    package static func isAdopted(_ key: HardwareKey) -> Bool {
        (try? TokenKeyBlob.of(key).isAdopted) ?? false
    }
}

/// Certificates on the token, for other programs that use the token's keys. A PIV card requires a
/// certificate in a key's slot before OpenSC uses the key.
extension PKCS11Keystore {
    /// Reads the certificates for a key, in DER, including a YubiKey's attestation. Does not
    /// prompt.
    package func certificates(of key: HardwareKey) async throws(KeystoreError) -> [Data] {
        do throws(KeystoreError) {
            let blob = try TokenKeyBlob.of(key)
            let snapshot = try await checkedSnapshot(of: blob.name, withHash: blob.publicKeyHash)
            return try await snapshot.token.inspect { (session) throws(CryptokiError) in
                try session.certificates(id: blob.name.id).map(\.der)
            }
        } catch {
            throw error.during("read the token's certificates")
        }
    }

    /// Stores a certificate for a key on the token. Prompts for the token's PIN.
    ///
    /// - Parameter certificate: X.509, DER, at most 16 KiB, for this key.
    /// - Throws: `KeystoreError`; `invalidInput` if it is not a certificate or is for another key,
    ///   `unsupported` on a YubiKey through Yubico's module.
    public func storeCertificate(
        _ certificate: Data, for key: HardwareKey, prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        do throws(KeystoreError) {
            let blob = try TokenKeyBlob.of(key)
            guard try await takeSnapshot(on: blob.name).module.family != .ykcs11 else {
                throw .unsupported(
                    "this module can't store certificates",
                    recovery: "Run `ykman piv certificates import SLOT FILE`.")
            }
            guard certificate.count <= TokenCertificate.maximumBytes else {
                throw .invalidInput(
                    "the certificate is larger than \(TokenCertificate.maximumBytes) bytes")
            }
            guard let parsed = try? Certificate(derEncoded: Array(certificate)) else {
                throw .invalidInput("the data is not an X.509 certificate in DER")
            }
            guard PublicKey(certifiedBy: parsed) == key.publicKey else {
                throw .invalidInput("the certificate is for another key")
            }
            let snapshot = try await checkedSnapshot(
                of: blob.name, withHash: blob.publicKeyHash, under: key.policy)
            let proof = try await userProof(snapshot, for: prompt, presence)
            do {
                try await snapshot.token.withLogin(.user, proof) {
                    (session) throws(CryptokiError) in
                    presence.accepted()
                    let stored = try session.certificates(id: blob.name.id)
                    // The first run may have stored it before the session was lost.
                    if session.isRepeated, stored.contains(where: { $0.der == certificate }) {
                        return
                    }
                    try session.storeCertificate(
                        parsed, der: certificate, id: blob.name.id, label: key.label ?? "Latchkey")
                }
            } catch {
                throw await explained(error, snapshot, presence)
            }
        } catch {
            throw error.during("store a certificate")
        }
    }
}
