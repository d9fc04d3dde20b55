import Dispatch
import TPM2
import TPM2TCTI

/// `TPM2` in the shape of ``ESAPI``: one connection, wire bytes in and out.
struct NativeTPM {
    let tpm: TPM
    let storage: TPMObject

    /// Lends a connection to `body`, on a thread that may block, and closes it.
    static func connect<R: Sendable>(
        to tcti: String, _ body: @escaping @Sendable (NativeTPM) throws -> R
    ) async throws -> R {
        try await withCheckedThrowingContinuation { continuation in
            DispatchQueue.global().async {
                continuation.resume(
                    with: Result {
                        let transport = ResubmittingTransport(try TCTIConnection(tcti))
                        defer { transport.close() }
                        let tpm = TPM(transport)
                        let template = try PublicArea(
                            unmarshalling: OracleTemplates.storage.dropFirst(2))
                        let storage = try tpm.execute(CreatePrimary(template, in: .owner))
                        defer { try? tpm.execute(FlushContext(storage.handle)) }
                        return try body(NativeTPM(tpm: tpm, storage: storage))
                    })
            }
        }
    }

    /// Create, in a salted session that encrypts.
    func create(_ template: [UInt8], authValue: [UInt8], sealing data: [UInt8]? = nil) throws
        -> ESAPI.WrappedKey
    {
        let template = try PublicArea(unmarshalling: template.dropFirst(2))
        let authValue = try value(authValue)
        let session = try tpm.execute(StartAuthSession(.hmac, saltedTo: storage))
        defer { try? tpm.execute(FlushContext(session.handle)) }
        let authorization = Authorization.continuing(session, protecting: [.decrypt, .encrypt])
        let made = try tpm.execute(
            Create(
                template, authValue: authValue, sealing: data.map { SensitiveData($0) },
                under: storage), authorizedBy: authorization)
        return ESAPI.WrappedKey(
            privateArea: made.privatePart.marshalled,
            publicArea: MarshallingUnit.sized(made.publicArea.marshalled))
    }

    /// Sign, in a salted session that encrypts.
    func sign(_ digest: [UInt8], with key: ESAPI.WrappedKey, authValue: [UInt8]) throws -> (
        r: [UInt8], s: [UInt8]
    ) {
        let signature = try use(key, authValue) { object, authorization in
            try tpm.execute(Sign(digest, with: object), authorizedBy: authorization)
        }
        guard case .ecdsa(_, let r, let s) = signature else { throw Unexpected() }
        return (r, s)
    }

    func unseal(_ item: ESAPI.WrappedKey, authValue: [UInt8]) throws -> [UInt8] {
        try use(item, authValue, protecting: .encrypt) { object, authorization in
            try tpm.execute(Unseal(object), authorizedBy: authorization).bytes
        }
    }

    func changeAuthValue(of key: ESAPI.WrappedKey, from old: [UInt8], to new: [UInt8]) throws
        -> ESAPI.WrappedKey
    {
        let new = try value(new)
        let blob = try use(key, old) { object, authorization in
            try tpm.execute(
                ObjectChangeAuth(of: object, under: storage, to: new), authorizedBy: authorization)
        }
        return ESAPI.WrappedKey(privateArea: blob.marshalled, publicArea: key.publicArea)
    }

    /// Loads a key, which the caller flushes.
    func load(_ key: ESAPI.WrappedKey) throws -> TPMObject {
        try tpm.execute(
            Load(
                PrivateBlob(unmarshalling: key.privateArea),
                PublicArea(unmarshalling: key.publicArea.dropFirst(2)), under: storage))
    }

    private func use<R>(
        _ key: ESAPI.WrappedKey, _ authValue: [UInt8],
        protecting attributes: SessionAttributes = .decrypt,
        _ body: (TPMObject, Authorization) throws -> R
    ) throws -> R {
        let object = try load(key)
        defer { try? tpm.execute(FlushContext(object.handle)) }
        let session = try tpm.execute(StartAuthSession(.hmac, saltedTo: storage))
        defer { try? tpm.execute(FlushContext(session.handle)) }
        return try body(
            object, .continuing(session, authValue: value(authValue), protecting: attributes))
    }

    /// A salted session, which `body` uses or leaves.
    func inSession<R>(_ kind: Session.Kind = .hmac, _ body: (Session) throws -> R) throws -> R {
        let session = try tpm.execute(StartAuthSession(kind, saltedTo: storage))
        defer { if session.isLoaded { try? tpm.execute(FlushContext(session.handle)) } }
        return try body(session)
    }

    /// The digest that the TPM computes for the policy that `steps` run in a trial session.
    func policyDigest(_ steps: (Session) throws -> Void) throws -> [UInt8] {
        try inSession(.trial) { session in
            try steps(session)
            return try tpm.execute(PolicyGetDigest(), in: session)
        }
    }

    func value(_ bytes: [UInt8]) throws -> AuthValue {
        guard let value = bytes.withUnsafeBytes(AuthValue.init) else { throw Unexpected() }
        return value
    }
}

/// An unexpected result that ends a test.
struct Unexpected: Error {}
