import Crypto
import LatchkeySimulators
import LatchkeyTesting
import TPM2
import Testing

/// Tickets that one implementation gets satisfy the policy in sessions of the other.
@Suite(.softwareTPM) struct `ESAPI and TPM2 use each other's tickets and contexts` {
    private static let reference = [UInt8](repeating: 0xA5, count: 32)
    private let key = P256.Signing.PrivateKey()
    private var area: [UInt8] { OracleTemplates.verifying(key.publicKey) }
    private var name: TPMName {
        get throws { try PublicArea(unmarshalling: area.dropFirst(2)).name }
    }

    private func signature(_ approval: Approval) throws -> (r: [UInt8], s: [UInt8]) {
        let raw = try Array(key.signature(for: Array(approval.unhashed)).rawRepresentation)
        return (Array(raw.prefix(32)), Array(raw.suffix(32)))
    }

    @Test func `TPM2 uses a ticket of PolicySigned that ESAPI got`() async throws {
        let tcti = try SoftwareTPM.current.tcti
        let given = try await ESAPI.connect(to: tcti) { esys in
            let authority = try esys.loadExternal(area)
            defer { try? esys.flush(authority) }
            let session = try esys.startSession(.policy)
            defer { try? esys.flush(session) }
            let nonce = try esys.nonceTPM(of: session)
            #expect(nonce.count == Session.nonceBytes)
            return try esys.policySigned(
                session, by: authority, nonceTPM: nonce, expiration: -60, policyRef: Self.reference,
                signature: signature(
                    Approval(nonceTPM: nonce, expiration: -60, policyRef: Self.reference)))
        }
        #expect(
            try await digestHere(given, name)
                == PolicyDigest().signed(by: name, policyRef: Self.reference).bytes)
    }

    @Test func `ESAPI uses a ticket of PolicySigned that TPM2 got`() async throws {
        let tcti = try SoftwareTPM.current.tcti
        let given = try await NativeTPM.connect(to: tcti) { native in
            let authority = try native.tpm.execute(
                LoadExternal(PublicArea(unmarshalling: area.dropFirst(2)), in: .owner))
            defer { try? native.tpm.execute(FlushContext(authority.handle)) }
            return try native.inSession(.policy) { session in
                let approval = Approval(
                    nonceTPM: session.nonceTPM, expiration: -60, policyRef: Self.reference)
                let (r, s) = try signature(approval)
                return try native.tpm.execute(
                    PolicySigned(
                        approval, signature: .ecdsa(hash: .sha256, r: r, s: s), by: authority),
                    in: session)
            }
        }
        #expect(
            try await digestThere(given, name)
                == PolicyDigest().signed(by: name, policyRef: Self.reference).bytes)
    }

    @Test func `tickets of PolicySecret, in both directions`() async throws {
        let tcti = try SoftwareTPM.current.tcti
        let owner = Hierarchy.owner.name
        let policy = PolicyDigest().secret(of: owner, policyRef: Self.reference).bytes
        let theirs = try await ESAPI.connect(to: tcti) { esys in
            let session = try esys.startSession(.policy)
            defer { try? esys.flush(session) }
            return try esys.policySecret(
                session, of: ESAPI.owner, by: ESAPI.password, expiration: -60,
                policyRef: Self.reference)
        }
        #expect(try await digestHere(theirs, owner) == policy)
        let ours = try await NativeTPM.connect(to: tcti) { native in
            try native.inSession(.policy) { session in
                try native.tpm.execute(
                    PolicySecret(
                        Approval(
                            nonceTPM: session.nonceTPM, expiration: -60, policyRef: Self.reference),
                        of: Hierarchy.owner), in: session, authorizedBy: .emptyPassword)
            }
        }
        #expect(try await digestThere(ours, owner) == policy)
    }

    @Test func `LoadExternal of a public key, in the hierarchy that gives tickets`() async throws {
        let tcti = try SoftwareTPM.current.tcti
        let theirs = try await ESAPI.connect(to: tcti) { esys in
            let authority = try esys.loadExternal(area)
            defer { try? esys.flush(authority) }
            return try esys.name(of: authority)
        }
        let ours = try await NativeTPM.connect(to: tcti) { native in
            let authority = try native.tpm.execute(
                LoadExternal(PublicArea(unmarshalling: area.dropFirst(2)), in: .owner))
            defer { try? native.tpm.execute(FlushContext(authority.handle)) }
            return try native.tpm.execute(ReadPublic(authority.handle)).name
        }
        #expect(ours.bytes == theirs)
    }

    @Test func `TPM2 loads a session that ESAPI saved`() async throws {
        let tcti = try SoftwareTPM.current.tcti
        let saved = try await ESAPI.connect(to: tcti) { esys in
            let session = try esys.startSession(.policy)
            return try esys.contextSave(session)
        }
        try await NativeTPM.connect(to: tcti) { native in
            let context = try SavedContext(unmarshalling: saved)
            #expect(context.marshalled == saved)
            let handle = try native.tpm.execute(ContextLoad(context))
            defer { try? native.tpm.execute(FlushContext(handle)) }
            #expect(handle == context.savedHandle)
            #expect(try native.tpm.handles(from: .loadedSessionFirst).contains(handle))
        }
    }

    @Test func `tpm2-tss parses a session that TPM2 saved`() async throws {
        let saved = try await NativeTPM.connect(to: SoftwareTPM.current.tcti) { native in
            let session = try native.tpm.execute(StartAuthSession(.policy, saltedTo: nil))
            defer { try? native.tpm.execute(FlushContext(session.handle)) }
            return try native.tpm.execute(ContextSave(session)).marshalled
        }
        #expect(try MarshallingUnit.rewritten(context: saved) == saved)
    }

    // MARK: Tickets at work

    private func digestHere(_ given: ESAPI.AuthTicket, _ authority: TPMName) async throws -> [UInt8]
    {
        try await NativeTPM.connect(to: SoftwareTPM.current.tcti) { native in
            try native.inSession(.policy) { session in
                try native.tpm.execute(
                    PolicyTicket(
                        ApprovalTicket(unmarshalling: given.timeout + given.ticket),
                        for: Approval(policyRef: Self.reference), by: authority), in: session)
                return try native.tpm.execute(PolicyGetDigest(), in: session)
            }
        }
    }

    private func digestThere(_ given: ApprovalTicket, _ authority: TPMName) async throws -> [UInt8]
    {
        let ticket = ESAPI.AuthTicket(
            timeout: MarshallingUnit.sized(given.timeout), ticket: given.ticket.marshalled)
        return try await ESAPI.connect(to: SoftwareTPM.current.tcti) { esys in
            let session = try esys.startSession(.policy)
            defer { try? esys.flush(session) }
            try esys.policyTicket(session, ticket, by: authority.bytes, policyRef: Self.reference)
            return try esys.policyDigest(of: session)
        }
    }
}

extension Approval {
    /// What `aHash` is the digest of, put together once more.
    fileprivate var unhashed: [UInt8] {
        nonceTPM + withUnsafeBytes(of: expiration.bigEndian) { Array($0) } + commandHash + policyRef
    }
}
