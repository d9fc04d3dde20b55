package import FoundationEssentials
package import Latchkey
internal import Synchronization
internal import TPM2

/// Several uses with one fingerprint, and a signature whose digest follows.
///
/// The outputs of a passkey's PRF are part of the data that the passkey signs, so the digest is
/// known only after two other uses. The fingerprint then approves one signature with one key in one
/// session of the TPM, and the requester states the digest once.
extension ApprovalAuthority {
    /// Approves the signature whose digest was not known at the fingerprint: once, within
    /// ``DeferredApprovals/lifetime``.
    ///
    /// - Throws: `KeystoreError` with code `refused` for a ticket that is unknown, late, used, or
    ///   another user's.
    package func complete(
        _ ticket: Data, _ use: ApprovalRequest.Use, for user: UInt32
    ) async throws(KeystoreError) -> PresenceApproval {
        do throws(KeystoreError) {
            switch use {
            case .sign, .signNamingScheme: break
            case .unseal, .mac: throw .invalidInput("only a signature can be approved later")
            }
            guard let entry = deferred.take(ticket, for: user) else {
                throw KeystoreError(
                    code: .refused, reason: "no approved signature waits for a digest",
                    recovery: "Try again, and place your finger on the reader once more.")
            }
            let approval = Approval(
                nonceTPM: Array(entry.further.nonceTPM), expiration: Self.approvalSeconds,
                commandHash: Self.commandHash(of: use, entry.further.keyName),
                policyRef: entry.reference)
            guard let signature = try await sign([approval]).first else { throw Self.noSignature }
            return PresenceApproval(expiration: approval.expiration, signature: signature)
        } catch { throw error.during("approve a use") }
    }

    func checkFurther(_ request: ApprovalRequest) throws(KeystoreError) {
        if case .mac(let message) = request.use { try Self.checkMessage(message) }
        guard !request.further.isEmpty else { return }
        guard request.policy.reuseSeconds == 0,
            request.further.count <= ApprovalRequest.maximumFurtherUses
        else {
            throw .invalidInput("the request has too many uses, or a policy with a reuse time")
        }
        guard isLogin(request) else {
            throw .invalidInput(
                "the uses are not those of a passkey's PRF, followed by one signature")
        }
        for further in request.further {
            guard further.keyName.count == 34, further.keyName.starts(with: [0x00, 0x0b]),
                further.nonceTPM.count == Session.nonceBytes
            else { throw .invalidInput("the key's Name or the session's nonce has another format") }
            if case .mac(let message)? = further.use { try Self.checkMessage(message) }
        }
    }

    /// Whether the uses are those of a login with PRF: one or two HMACs with one key, or one
    /// opening of a sealed secret, and then the signature whose digest is not known yet.
    private func isLogin(_ request: ApprovalRequest) -> Bool {
        guard request.further.last?.use == nil else { return false }
        let others = request.further.dropLast()
        switch request.use {
        case .unseal: return others.isEmpty
        case .mac:
            return others.allSatisfy { other in
                guard case .mac? = other.use else { return false }
                return other.keyName == request.keyName
            }
        case .sign, .signNamingScheme: return false
        }
    }

    private static func checkMessage(_ message: Data) throws(KeystoreError) {
        guard message.count == 32 else { throw .invalidInput("the message does not have 32 bytes") }
    }
}

/// The approved signatures whose digests are not known yet, in memory only.
final class DeferredApprovals: Sendable {
    struct Entry: Sendable {
        let further: ApprovalRequest.Further
        let reference: [UInt8]
        let user: UInt32
        let end: ContinuousClock.Instant
    }

    /// The time from the fingerprint to the digest. Two HMACs of a slow TPM take about one second.
    static let lifetime: Duration = .seconds(10)
    private static let maximumCount = 64

    private let entries = Mutex<[Data: Entry]>([:])

    func add(_ further: ApprovalRequest.Further, reference: [UInt8], for user: UInt32) -> Data {
        let ticket = SecretBytes.random(count: 32).withUnsafeBytes { Data($0) }
        let now = ContinuousClock.now
        entries.withLock { entries in
            entries = entries.filter { $0.value.end > now }
            if entries.count >= Self.maximumCount,
                let oldest = entries.min(by: { $0.value.end < $1.value.end })
            {
                entries[oldest.key] = nil
            }
            entries[ticket] = Entry(
                further: further, reference: reference, user: user, end: now + Self.lifetime)
        }
        return ticket
    }

    /// Removes and returns the entry of a ticket. Another user's ticket stays.
    func take(_ ticket: Data, for user: UInt32) -> Entry? {
        entries.withLock { entries in
            guard let entry = entries[ticket], entry.user == user else { return nil }
            entries[ticket] = nil
            return entry.end > .now ? entry : nil
        }
    }
}
