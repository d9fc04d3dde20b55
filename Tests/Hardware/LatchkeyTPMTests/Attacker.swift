import Crypto
import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import TPM2
import TPM2TCTI
import Testing

@testable import LatchkeyTPM

/// A same-user process with access to the store, the key's blob and the TPM, but without an
/// enrolled finger.
struct Attacker: KeyThief {
    var blob: TPMKeyBlob
    let policy: AccessPolicy
    let root: StorageRoot
    let finger: PresenceProtection.Finger

    init(_ key: HardwareKey, anchors: any TrustAnchors) async throws {
        blob = try TPMKeyBlob(key.blob)
        policy = key.policy
        root = try StorageRoot(
            anchor: try #require(try await anchors.anchor(StorageRoot.anchorName)))
        finger = try #require(blob.protection.finger)
    }

    var authority: TPMObject {
        get throws {
            try TPMObject(handle: try #require(finger.handle), publicArea: finger.authority)
        }
    }

    var branches: [PolicyDigest] {
        get throws { try blob.branches(under: policy) }
    }

    /// The reference in the key's policy.
    var reference: [UInt8] { finger.reference(under: policy) }

    /// A request for the broker's approval.
    func request(_ session: Session, digest: MessageDigest = Scene.digest) throws -> ApprovalRequest
    {
        ApprovalRequest(
            use: .sign(digest), keyName: Data(try blob.key.publicArea.name.bytes),
            nonceTPM: Data(session.nonceTPM),
            policy: policy, context: Scene.prompt)
    }

    func approval(
        _ given: PresenceApproval, nonce: [UInt8], digest: MessageDigest = Scene.digest,
        reference: [UInt8]? = nil
    ) throws -> Approval {
        let hash = Sign(digest.bytes, with: NamedHandle(named: try blob.key.publicArea.name)).hash
        return Approval(
            nonceTPM: nonce, expiration: given.expiration,
            commandHash: policy.reuseSeconds == 0 ? hash : [],
            policyRef: reference ?? self.reference)
    }

    /// Names the branches, if there are several, after the assertions of one of them.
    func join(_ tpm: TPM, _ session: Session) throws {
        let branches = try branches
        if branches.count > 1 { try tpm.execute(PolicyOR(branches), in: session) }
    }

    /// Starts a policy session, has `satisfy` do what it can, and signs.
    ///
    /// - Parameter authValue: Of the key, for a session that proves it.
    /// - Returns: The TPM's answer, or nil when it signed.
    static func sign(
        _ attacker: Attacker, digest: MessageDigest = Scene.digest, authValue: AuthValue = .empty,
        _ satisfy: (TPM, Session) async throws -> Void
    ) async throws -> UInt32? {
        let connection = try TCTIConnection(try SoftwareTPM.current.tcti)
        defer { connection.close() }
        let tpm = TPM(ResubmittingTransport(connection))
        let session = try tpm.execute(StartAuthSession(.policy, saltedTo: nil))
        defer { if session.isLoaded { try? tpm.execute(FlushContext(session.handle)) } }
        do {
            try await satisfy(tpm, session)
            _ = try attacker.use(tpm, .lastUse(of: session, authValue: authValue), digest)
            return nil
        } catch let error as TPMError {
            return error.responseCode?.rawValue
        }
    }

    /// Changes the key's authValue, which the empty one authorizes.
    func changing(to authValue: AuthValue) throws -> Attacker {
        var changed = self
        changed.blob.key.privatePart = try Scene.look { tpm in
            try tpm.withStorageRoot(root) { (parent) throws(TPMError) in
                try tpm.withLoadedObject(of: blob.key, under: parent) {
                    (object) throws(TPMError) in
                    try tpm.execute(ObjectChangeAuth(of: object, under: parent, to: authValue))
                }
            }
        }
        return changed
    }

    /// Loads the key and signs with whatever authorizes it.
    func use(
        _ tpm: TPM, _ authorization: Authorization, _ digest: MessageDigest = Scene.digest
    ) throws(TPMError) -> TPMSignature {
        try tpm.withStorageRoot(root) { (parent) throws(TPMError) in
            try tpm.withLoaded(blob.key.privatePart, blob.key.publicArea, under: parent) {
                (object) throws(TPMError) in
                try tpm.execute(Sign(digest.bytes, with: object), authorizedBy: authorization)
            }
        }
    }
}

/// A process with a key's blob, for a key without a finger.
struct Thief: KeyThief {
    let blob: TPMKeyBlob
    let root: StorageRoot

    init(_ key: HardwareKey, anchors: any TrustAnchors) async throws {
        blob = try TPMKeyBlob(key.blob)
        root = try StorageRoot(
            anchor: try #require(try await anchors.anchor(StorageRoot.anchorName)))
    }
}

/// A process with the blob of a key and the TPM.
protocol KeyThief {
    var blob: TPMKeyBlob { get }
    var root: StorageRoot { get }
}

extension KeyThief {
    /// Signs a statement about the storage root key with the key (`TPM2_Certify`, the key as
    /// signer).
    ///
    /// - Parameter satisfy: The assertions of a policy session; nil: the empty authValue.
    /// - Returns: The TPM's answer, or nil when it signed.
    func certifiesParent(_ satisfy: ((TPM, Session) throws -> Void)?) throws -> UInt32? {
        try attempt { tpm, parent, object, session in
            guard let satisfy else {
                _ = try tpm.execute(Certify(parent, by: object, challenge: [1, 2, 3]))
                return
            }
            try satisfy(tpm, session)
            _ = try tpm.execute(
                Certify(parent, by: object, challenge: [1, 2, 3]),
                authorizedBy: .emptyPassword, .lastUse(of: session))
        }
    }

    /// Signs a digest with the empty authValue.
    func signs() throws -> UInt32? {
        try attempt { tpm, _, object, _ in
            _ = try tpm.execute(Sign(Scene.digest.bytes, with: object))
        }
    }

    private func attempt(
        _ body: (TPM, TPMObject, TPMObject, Session) throws -> Void
    ) throws -> UInt32? {
        try Scene.look { tpm in
            let parent = try TPMObject(handle: .storageRootKey, publicArea: root.publicArea)
            let object = try tpm.execute(
                Load(blob.key.privatePart, blob.key.publicArea, under: parent))
            let session = try tpm.execute(StartAuthSession(.policy, saltedTo: nil))
            defer {
                try? tpm.execute(FlushContext(object.handle))
                if session.isLoaded { try? tpm.execute(FlushContext(session.handle)) }
            }
            return Scene.code { try body(tpm, parent, object, session) }
        }
    }
}
