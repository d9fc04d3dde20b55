import Glibc
import LatchkeySimulators
import LatchkeyTesting
import TPM2
import TPM2TCTI
import Testing

/// The test's software TPM with a storage key. At the end, no object or session may be loaded.
struct TestTPM {
    let tpm: TPM
    let wire: RecordingWire
    let parent: TPMObject

    static let storageTemplate = PublicArea(
        attributes: [
            .fixedTPM, .fixedParent, .sensitiveDataOrigin, .userWithAuth, .noDA, .restricted,
            .decrypt,
        ],
        detail: .ecc(ECCParameters(symmetric: .aes128CFB), ECCPoint(x: [], y: [])))

    static let born: ObjectAttributes = [.fixedTPM, .fixedParent, .sensitiveDataOrigin]

    static func signingTemplate(
        _ attributes: ObjectAttributes = [.userWithAuth], policy: PolicyDigest? = nil
    ) -> PublicArea {
        PublicArea(
            attributes: born.union(.sign).union(attributes), authPolicy: policy?.bytes ?? [],
            detail: .ecc(ECCParameters(scheme: .ecdsaSHA256), ECCPoint(x: [], y: [])))
    }

    static let digest = [UInt8](repeating: 0x5a, count: 32)

    static func authValue(_ bytes: [UInt8]) throws -> AuthValue {
        try #require(bytes.withUnsafeBytes { AuthValue($0) })
    }

    /// Connects, creates a persistent storage key, passes it to `body`, and checks that nothing
    /// stays loaded.
    static func with(_ body: (TestTPM) throws -> Void) async throws {
        let wire = RecordingWire(try TCTIConnection(try SoftwareTPM.current.tcti))
        defer { wire.close() }
        let tpm = TPM(ResubmittingTransport(wire))
        var parent: TPMObject?
        try tpm.withPrimary(storageTemplate, in: .owner) { (primary) throws(TPMError) in
            try tpm.execute(EvictControl(primary, at: .storageRootKey))
            parent = try TPMObject(handle: .storageRootKey, publicArea: primary.publicArea)
        }
        try body(TestTPM(tpm: tpm, wire: wire, parent: try #require(parent)))
        wire.tamper = { $1 }
        #expect(try tpm.handles(from: .transientFirst) == [], "no object is left loaded")
        #expect(try tpm.handles(from: .loadedSessionFirst) == [], "no session is left loaded")
    }

    /// Makes a key in a salted session.
    func create(_ template: PublicArea, authValue: AuthValue = .empty) throws -> CreatedObject {
        try tpm.withSession(.hmac, saltedTo: parent) { (session) throws(TPMError) in
            try tpm.execute(
                Create(template, authValue: authValue, under: parent),
                authorizedBy: .lastUse(of: session, protecting: [.decrypt, .encrypt]))
        }
    }

    /// Loads a key and signs in a session of that kind.
    func sign(
        with key: CreatedObject, in kind: Session.Kind = .hmac, authValue: AuthValue = .empty,
        _ prepare: (Session, TPMObject) throws(TPMError) -> Void = { (_, _) throws(TPMError) in }
    ) throws(TPMError) -> TPMSignature {
        try tpm.withSession(kind, saltedTo: parent) { (session) throws(TPMError) in
            try tpm.withLoaded(key.privatePart, key.publicArea, under: parent) {
                (object) throws(TPMError) in
                try prepare(session, object)
                return try tpm.execute(
                    Sign(Self.digest, with: object),
                    authorizedBy: .lastUse(of: session, authValue: authValue))
            }
        }
    }

    /// Loads the authority's public key and submits its approval.
    ///
    /// - Parameter signer: Another authority that signs instead.
    @discardableResult
    func approve(
        _ approval: Approval, _ authority: SoftwareAuthority, _ session: Session,
        signedBy signer: SoftwareAuthority? = nil
    ) throws(TPMError) -> ApprovalTicket {
        let key = try tpm.execute(LoadExternal(authority.publicArea, in: .owner))
        let result: ApprovalTicket
        do throws(TPMError) {
            result = try tpm.execute(
                PolicySigned(approval, signature: (signer ?? authority).sign(approval), by: key),
                in: session)
        } catch {
            try tpm.execute(FlushContext(key.handle))
            throw error
        }
        try tpm.execute(FlushContext(key.handle))
        return result
    }

    /// Waits until the TPM's clock has advanced by more than this number of seconds.
    func passTime(seconds: UInt64) throws(TPMError) {
        let end = try tpm.execute(ReadClock()).time + seconds * 1000 + 200
        while try tpm.execute(ReadClock()).time <= end { usleep(20_000) }
    }

    /// The exact response code with which `body` fails.
    static func code(_ body: () throws(TPMError) -> Void) -> UInt32? {
        do {
            try body()
            return nil
        } catch {
            return error.responseCode?.rawValue
        }
    }

    /// The kind of error with which `body` fails.
    static func kind(_ body: () throws(TPMError) -> Void) -> TPMError.Kind? {
        do {
            try body()
            return nil
        } catch {
            return error.kind
        }
    }
}
