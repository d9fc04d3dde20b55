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
struct Attacker {
    let blob: TPMKeyBlob
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
