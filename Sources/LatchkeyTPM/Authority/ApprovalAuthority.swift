package import FoundationEssentials
package import Latchkey
package import TPM2

/// The presence broker's part in the TPM: the key that approves, the users' own PINs, the counters of their fingers.
///
/// It believes its caller about who is there. The service around it sees to that.
package struct ApprovalAuthority: Sendable {
    /// For how many seconds an approval holds, from the session's nonce on.
    package static let approvalSeconds: Int32 = 30
    /// After how many wrong PINs in a row a user's own PIN is shut.
    package static let pinLimit: UInt32 = 10

    let device: TPMDevice
    let store: AuthorityStore

    /// Opens the TPM's key, or makes it the first time.
    ///
    /// - Parameters:
    ///   - directory: Where the key and its authorization are kept. Nobody else may read it.
    package init(tcti: String, directory: String) async throws(KeystoreError) {
        try await self.init(directory: directory) { () throws(TPMError) in try TCTIConnection(tcti) }
    }

    /// Uses the TPM behind connections of another kind.
    package init(
        directory: String, connect: @escaping @Sendable () throws(TPMError) -> any TPMTransport
    ) async throws(KeystoreError) {
        device = TPMDevice(connect: connect)
        store = try AuthorityStore(directory: directory)
        try await work("start the presence broker") { (tpm, store) throws(TPMError) in
            try tpm.prepareAuthority(store)
        }
    }

    /// Approves one use of one key, for the user whose finger was seen.
    ///
    /// - Parameters:
    ///   - enrolmentSet: The user's fingers as they are enrolled now, 32 bytes.
    ///   - elapsed: How long ago the request came: a time of reuse begins with the touch.
    /// - Throws: `KeystoreError` with code `invalidInput` for a request that no honest program makes.
    package func approve(
        _ request: ApprovalRequest, for user: UInt32, enrolmentSet: Data?, elapsed: Duration
    ) async throws(KeystoreError) -> PresenceApproval {
        let operation = "approve a use"
        try check(request)
        let isBoundToSet = request.policy.requirement == .biometryCurrentSet
        guard !isBoundToSet || enrolmentSet?.count == 32 else {
            throw .invalidInput(operation, "the set of fingers is not known")
        }
        if isBoundToSet, let enrolmentSet { try await note(enrolmentSet, of: user) }
        let reference = PresenceReference.use(
            by: user, under: request.policy, enrolmentSet: isBoundToSet ? enrolmentSet.map { Array($0) } : nil)
        let isReusable = request.policy.reuseSeconds > 0
        let approval = Approval(
            nonceTPM: Array(request.nonceTPM),
            expiration: isReusable
                ? -Int32(request.policy.reuseSeconds + Int(elapsed.components.seconds) + 1) : Self.approvalSeconds,
            commandHash: isReusable ? [] : request.commandHash, policyRef: reference)
        let signature = try await work(operation) { (tpm, store) throws(TPMError) in
            try tpm.withAuthority(store) { (authority) throws(TPMError) in try authority.sign(approval) }
        }
        guard let signature = ECDSASignature(signature) else {
            throw KeystoreError(
                TPMError(.forged, command: .sign, reason: "the approval is no signature"), during: operation)
        }
        return PresenceApproval(expiration: approval.expiration, signature: signature)
    }

    /// Checks all of a request that needs no finger and no TPM. To be called before a finger is requested.
    ///
    /// - Throws: `KeystoreError` with code `invalidInput` for a request that no honest program makes.
    package func check(_ request: ApprovalRequest) throws(KeystoreError) {
        let operation = "approve a use"
        // The Name's hash algorithm is SHA-256.
        guard request.keyName.count == 34, request.keyName.starts(with: [0x00, 0x0b]) else {
            throw .invalidInput(operation, "the key's Name has another form")
        }
        // The signed message joins nonce, expiration and cpHash without separators, so a longer nonce could stand for all
        // three.
        guard request.nonceTPM.count == Session.nonceBytes else {
            throw .invalidInput(operation, "the session's nonce does not have \(Session.nonceBytes) bytes")
        }
        guard request.policy.hasFinger else { throw .invalidInput(operation, "the policy accepts no finger") }
        let texts = [request.context.reason, request.context.container]
        guard texts.allSatisfy({ $0.utf8.count <= ApprovalRequest.maximumTextBytes }) else {
            throw .invalidInput(
                operation, "its reason or container is longer than \(ApprovalRequest.maximumTextBytes) bytes")
        }
    }

    /// One visit to the TPM. All of them happen one after the other, with what they do to the state.
    func work<R: Sendable>(
        _ operation: String, _ body: @Sendable (TPM, AuthorityStore) throws(TPMError) -> Result<R, KeystoreError>
    ) async throws(KeystoreError) -> R {
        let result: Result<R, KeystoreError>
        do {
            result = try await device.visit { [store] (tpm) throws(TPMError) in try body(tpm, store) }
        } catch {
            throw KeystoreError(error, during: operation)
        }
        return try result.get()
    }

    func work<R: Sendable>(
        _ operation: String, _ body: @Sendable (TPM, AuthorityStore) throws(TPMError) -> R
    ) async throws(KeystoreError) -> R {
        try await work(operation) { (tpm, store) throws(TPMError) -> Result<R, KeystoreError> in
            .success(try body(tpm, store))
        }
    }
}

extension ApprovalRequest {
    /// The cpHash, computed here: nobody says to the broker what it signs.
    fileprivate var commandHash: [UInt8] {
        let name = TPMName(bytes: Array(keyName))
        return switch use {
        case .sign(let digest): TPM.signCommandHash(digest.bytes, with: name)
        case .unseal: TPM.unsealCommandHash(name)
        }
    }
}
