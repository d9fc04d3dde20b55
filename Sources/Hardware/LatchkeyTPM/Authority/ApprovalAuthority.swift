package import FoundationEssentials
package import Latchkey
package import TPM2
internal import TPM2TCTI

/// The TPM objects of the presence broker: the approval key, the users' PINs, and the counters of
/// changed fingerprints.
///
/// It trusts its caller, the broker service, to identify the user and to verify the fingerprint.
package struct ApprovalAuthority: Sendable {
    /// The validity of an approval in seconds, from the creation of the session's nonce.
    package static let approvalSeconds: Int32 = 30
    /// The number of consecutive wrong PINs that locks a user's PIN.
    package static let pinLimit: UInt32 = 10

    let device: TPMDevice
    let store: AuthorityStore
    let deferred = DeferredApprovals()
    /// Why the TPM cannot be used; nil if it can.
    package let failure: KeystoreError?

    /// Opens the approval key, or creates it at the first start.
    ///
    /// - Parameters:
    ///   - directory: The directory for the key and its authorization. No other user may have
    ///     access to it.
    package init(tcti: String, directory: String) async throws(KeystoreError) {
        try await self.init(directory: directory) { () throws(TPMError) in try TCTIConnection(tcti)
        }
    }

    /// Uses a TPM through custom connections.
    package init(
        directory: String, connect: @escaping @Sendable () throws(TPMError) -> any TPMTransport
    ) async throws(KeystoreError) {
        device = TPMDevice(connect: connect)
        failure = nil
        do throws(KeystoreError) {
            store = try AuthorityStore(directory: directory)
            try await work { (tpm, store) in
                try tpm.prepareAuthority(store)
                try store.resumeFingerAttempts(at: .now)
            }
        } catch { throw error.during("start the presence broker") }
    }

    /// The stored state without the TPM, after the other initializer failed. Each use of the TPM
    /// throws the error, and nobody may sign in. ``denySignIn(of:)`` works.
    package init(tcti: String, directory: String, without failure: KeystoreError)
        throws(KeystoreError)
    {
        device = TPMDevice { () throws(TPMError) in try TCTIConnection(tcti) }
        self.failure = failure
        do throws(KeystoreError) {
            store = try AuthorityStore(directory: directory, hidesUsers: true)
        } catch { throw error.during("start the presence broker") }
    }

    /// Approves one use of one key, for the user of the verified fingerprint.
    ///
    /// - Parameters:
    ///   - enrolmentSet: A digest of the user's currently enrolled fingers, 32 bytes.
    ///   - elapsed: The time since the request: a reuse time begins with the touch.
    /// - Throws: `KeystoreError` with code `invalidInput` for a request that is not valid.
    package func approve(
        _ request: ApprovalRequest, for user: UInt32, enrolmentSet: Data?, elapsed: Duration
    ) async throws(KeystoreError) -> PresenceApproval {
        do throws(KeystoreError) {
            try check(request)
            let isBoundToSet = request.policy.isBoundToFingers
            guard !isBoundToSet || enrolmentSet?.count == 32 else {
                throw .invalidInput("the set of enrolled fingers is not known")
            }
            if isBoundToSet, let enrolmentSet { try await note(enrolmentSet, of: user) }
            let reference = PresenceReference.use(
                by: user, under: request.policy,
                enrolmentSet: isBoundToSet ? enrolmentSet.map { Array($0) } : nil)
            let isReusable = request.policy.reuseSeconds > 0
            let expiration =
                isReusable
                ? -Int32(request.policy.reuseSeconds + Int(elapsed.components.seconds) + 1)
                : Self.approvalSeconds
            let first = Approval(
                nonceTPM: Array(request.nonceTPM), expiration: expiration,
                commandHash: isReusable ? [] : Self.commandHash(of: request.use, request.keyName),
                policyRef: reference)
            let further = request.further.compactMap { further in
                further.use.map {
                    Approval(
                        nonceTPM: Array(further.nonceTPM), expiration: expiration,
                        commandHash: Self.commandHash(of: $0, further.keyName), policyRef: reference
                    )
                }
            }
            let signatures = try await sign([first] + further)
            guard let signature = signatures.first else { throw Self.noSignature }
            var approval = PresenceApproval(expiration: expiration, signature: signature)
            approval.further = Array(signatures.dropFirst())
            approval.ticket = request.further.first { $0.use == nil }.map {
                deferred.add($0, reference: reference, for: user)
            }
            return approval
        } catch { throw error.during("approve a use") }
    }

    /// Checks a request as far as possible without a fingerprint and without the TPM. Call it
    /// before the prompt.
    ///
    /// - Throws: `KeystoreError` with code `invalidInput` for a request that is not valid.
    package func check(_ request: ApprovalRequest) throws(KeystoreError) {
        do throws(KeystoreError) {
            // The Name's hash algorithm is SHA-256.
            guard request.keyName.count == 34, request.keyName.starts(with: [0x00, 0x0b]) else {
                throw .invalidInput("the key's Name has another format")
            }
            // The signed message joins nonce, expiration and cpHash without separators, so a longer
            // nonce could contain all three.
            guard request.nonceTPM.count == Session.nonceBytes else {
                throw .invalidInput("the session's nonce does not have \(Session.nonceBytes) bytes")
            }
            try checkFurther(request)
            guard request.policy.hasFinger else {
                throw .invalidInput("the policy permits no fingerprint")
            }
            let texts = [request.context.reason, request.context.container]
            guard texts.allSatisfy({ $0.utf8.count <= ApprovalRequest.maximumTextBytes }) else {
                throw .invalidInput(
                    "the prompt's reason or container is longer than \(ApprovalRequest.maximumTextBytes) bytes"
                )
            }
        } catch { throw error.during("approve a use") }
    }

    /// Signs that a user was verified for a request that uses no key.
    package func confirm(_ statement: OwnerStatement) async throws(KeystoreError) -> ECDSASignature
    {
        do throws(KeystoreError) {
            try check(statement)
            let approval = Approval(
                nonceTPM: Array(statement.nonce), policyRef: statement.reference)
            guard let signature = try await sign([approval]).first else { throw Self.noSignature }
            return signature
        } catch { throw error.during("confirm a user") }
    }

    /// Checks the parts that the requester chose.
    ///
    /// - Throws: `KeystoreError` with code `invalidInput`. The signed message has no separators, so a
    ///   longer nonce could contain a whole approval.
    package func check(_ statement: OwnerStatement) throws(KeystoreError) {
        guard statement.nonce.count == OwnerStatement.nonceBytes else {
            throw .invalidInput("the nonce does not have \(OwnerStatement.nonceBytes) bytes")
        }
        guard statement.reason.utf8.count <= ApprovalRequest.maximumTextBytes else {
            throw .invalidInput(
                "the reason is longer than \(ApprovalRequest.maximumTextBytes) bytes")
        }
    }

    /// Uses the TPM on one connection and changes the state. Calls are serialized.
    ///
    /// - Parameter body: Throws ``TPMError``, after which the device may repeat it, or
    ///   `KeystoreError`.
    func work<R: Sendable>(_ body: @Sendable (TPM, AuthorityStore) throws -> R)
        async throws(KeystoreError) -> R
    {
        if let failure { throw failure }
        let result: Result<R, KeystoreError>
        do {
            result = try await device.run { [store] (tpm) throws(TPMError) in
                do {
                    return .success(try body(tpm, store))
                } catch let error as KeystoreError {
                    return .failure(error)
                } catch {
                    throw error as? TPMError ?? TPMError(.unsupported, reason: "\(error)")
                }
            }
        } catch {
            throw KeystoreError(error)
        }
        return try result.get()
    }
}
