import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import TPM2
import TPM2TCTI
import Testing

/// The prompts and shortcuts that the tests share.
enum Scene {
    static let prompt = PromptContext(reason: "test a TPM", container: "tests")
    static let digest = MessageDigest(sha256: Array("a message".utf8))
    static let nobody = ScriptedPresence([])

    static func key(
        _ keystore: TPMKeystore, _ policy: AccessPolicy = .pin, pin: String = "123456"
    ) async throws -> HardwareKey {
        try await keystore.createKey(
            KeyRequest(policy: policy, prompt: prompt), authorizedBy: ScriptedPresence(pins: pin))
    }

    @discardableResult
    static func sign(
        _ keystore: TPMKeystore, _ key: HardwareKey, pin: String = "123456"
    ) async throws(KeystoreError) -> ECDSASignature {
        try await keystore.sign(
            digest, with: key, for: prompt, authorizedBy: ScriptedPresence(pins: pin))
    }

    static func key(
        _ keystore: TPMKeystore, _ policy: AccessPolicy, _ presence: ScriptedPresence
    ) async throws -> HardwareKey {
        try await keystore.createKey(
            KeyRequest(policy: policy, prompt: prompt), authorizedBy: presence)
    }

    @discardableResult
    static func sign(
        _ keystore: TPMKeystore, _ key: HardwareKey, _ presence: ScriptedPresence
    ) async throws(KeystoreError) -> ECDSASignature {
        try await keystore.sign(digest, with: key, for: prompt, authorizedBy: presence)
    }

    static func error(_ body: () async throws(KeystoreError) -> Void) async -> KeystoreError? {
        do {
            try await body()
            return nil
        } catch {
            return error
        }
    }

    /// The TPM's code of an error.
    static func code(_ body: () throws -> Void) -> UInt32? {
        do {
            try body()
            return nil
        } catch {
            return (error as? TPMError)?.responseCode?.rawValue
        }
    }

    /// A direct look at the TPM.
    static func look<R>(_ body: (TPM) throws -> R) throws -> R {
        let connection = try TCTIConnection(try SoftwareTPM.current.tcti)
        defer { connection.close() }
        return try body(TPM(ResubmittingTransport(connection)))
    }

    /// Stores another program's key at the handle of the storage root key.
    static func takeStorageRootHandle() throws -> TPMObject {
        try look { tpm in
            let template = PublicArea(
                attributes: [.fixedTPM, .fixedParent, .sensitiveDataOrigin, .userWithAuth, .sign],
                detail: .ecc(ECCParameters(scheme: .ecdsaSHA256), ECCPoint(x: [], y: [])))
            try tpm.withPrimary(template, in: .owner) { (primary) throws(TPMError) in
                try tpm.execute(EvictControl(primary, at: .storageRootKey))
            }
            return try tpm.execute(ReadPublic(.storageRootKey))
        }
    }

    /// Resets the count of wrong PINs.
    static func resetCount(_ tpm: TPM) throws {
        let password = Array(try #require(SoftwareTPM.current.lockoutPassword).utf8)
        let authValue = try #require(password.withUnsafeBytes { AuthValue($0) })
        try tpm.withSession(.hmac, saltedTo: nil) { (session) throws(TPMError) in
            try tpm.execute(
                DictionaryAttackLockReset(),
                authorizedBy: .lastUse(of: session, authValue: authValue))
        }
    }

    static func expectNothingLoaded(_ comment: Comment) throws {
        let objects = try look { try $0.handles(from: .transientFirst) }
        let sessions = try look { try $0.handles(from: .loadedSessionFirst) }
        #expect(objects.isEmpty, comment)
        #expect(sessions.isEmpty, comment)
    }
}
