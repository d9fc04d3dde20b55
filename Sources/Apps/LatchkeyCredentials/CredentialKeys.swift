internal import FoundationEssentials
internal import Latchkey
public import LatchkeyOAuth
internal import Synchronization

extension CredentialStore {
    /// The key to which a server binds the tokens of a new login (DPoP, RFC 9449). Creates it at the
    /// first use: one key for each server and client, without user verification.
    ///
    /// The app's login sends `dpop_jkt` with `DPoPKey.thumbprint` in the authorization request, and
    /// redeems the code with
    /// ``OAuth2Client/exchange(authorizationCode:issuer:codeVerifier:redirectURI:nonce:boundTo:)``.
    /// An app that sends the token request itself sends the field `DPoP` with
    /// `DPoPKey.proof(for:_:accessToken:nonce:)`, and stores the token with a ``Token/Context`` that
    /// names the key. Later requests of the credential then have proofs. The key is deleted with the
    /// last credential that is bound to it.
    ///
    /// - Parameters:
    ///   - issuer: The server's address.
    ///   - clientID: The OAuth client id.
    /// - Returns: nil if the server does not announce DPoP with ES256, or if this hardware has no
    ///   keys without user verification. The login then has no proof.
    /// - Throws: ``CredentialError`` if the server's metadata cannot be read. `KeystoreError`.
    public func dpopKey(issuer: String, clientID: String) async throws -> DPoPKey? {
        do {
            let metadata = try await providers.metadata(
                of: issuer, over: ServerConnection<CredentialErrorCode>(transport: transport))
            guard metadata.bindsTokens else { return nil }
            return try await keys.key(
                Token.Context(issuer: issuer, clientID: clientID),
                for: prompt("log in to \(issuer)"), authorizedBy: presence)
        } catch {
            throw error.during("get the key for a login")
        }
    }
}

/// The keys to which servers bind tokens: a row for each server and client.
final class CredentialKeys: Sendable {
    static let kind = "credential.dpop"

    private let records: RecordContainer
    private let now: @Sendable () -> Date
    /// The provers that were used, by thumbprint.
    private let provers = Mutex<[String: DPoPProver]>([:])

    init(records: RecordContainer, now: @escaping @Sendable () -> Date) {
        (self.records, self.now) = (records, now)
    }

    /// The stored key for new tokens, or a new one; nil if this hardware has none without user
    /// verification.
    fileprivate func key(
        _ context: Token.Context, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws -> DPoPKey? {
        try await row(of: context).storedOrNew(for: prompt, authorizedBy: presence)
            .map { prover($0).key }
    }

    /// The prover of the key to which tokens are bound; nil for tokens that are not bound.
    ///
    /// - Throws: ``CredentialError`` with code `signInAgain` if the key is not stored.
    func prover(of context: Token.Context) async throws(CredentialError) -> DPoPProver? {
        guard let thumbprint = context.boundKey else { return nil }
        if let known = provers.withLock({ $0[thumbprint] }) { return known }
        let key: HardwareKey?
        do throws(KeystoreError) {
            key = try await row(of: context).stored(
                for: PromptContext(reason: "use the credential"))
        } catch {
            throw CredentialError(.proof(DPoPFailure(error)))
        }
        guard let key, key.publicKey.thumbprint == thumbprint else {
            throw CredentialError(.proof(.lostKey(nil)))
        }
        return prover(key)
    }

    /// The change that stores the key of a new token again: see ``DPoPKeyRow/insertion(of:)``. Empty
    /// for a key that this process has not used.
    ///
    /// - Throws: ``CredentialError`` with code `signInAgain` if another program has replaced the key
    ///   since the login began.
    func insertion(of context: Token.Context) throws -> [RecordChange] {
        guard let thumbprint = context.boundKey,
            let key = provers.withLock({ $0[thumbprint] })?.key.key
        else { return [] }
        do {
            return [try row(of: context).insertionNow(of: key)]
        } catch let failure as DPoPFailure {
            throw CredentialError(.proof(failure))
        }
    }

    /// The key of a credential that is removed, if no other credential is bound to it, and the
    /// change that deletes its row.
    func deletion(with credential: RecordID) throws -> (key: HardwareKey, change: RecordChange)? {
        guard let metadata = try records.metadataNow(credential),
            let (thumbprint, context) = CredentialRows.boundKey(of: metadata)
        else { return nil }
        let others = try records.findNow(
            CredentialRows.kind, where: CredentialRows.query(boundKey: thumbprint))
        guard others.unreadable.isEmpty, others.records.allSatisfy({ $0.id == credential })
        else { return nil }
        return try row(of: context).deletion(ofKey: thumbprint)
    }

    /// Deletes a key from the hardware in the background, after its row: a token keeps keys.
    func discardSoon(_ key: HardwareKey) {
        _ = provers.withLock { $0.removeValue(forKey: key.publicKey.thumbprint) }
        Task { [records] in try? await records.discard(key) }
    }

    private func prover(_ key: HardwareKey) -> DPoPProver {
        provers.withLock { provers in
            if let known = provers[key.publicKey.thumbprint] { return known }
            let made = DPoPProver(DPoPKey(key, in: records.keystore, now: now))
            provers[key.publicKey.thumbprint] = made
            return made
        }
    }

    /// The row of a server and client. An issuer contains no line feed.
    private func row(of context: Token.Context) -> DPoPKeyRow {
        let name = MessageDigest(sha256: "\(context.issuer)\n\(context.clientID)".utf8)
        return DPoPKeyRow(
            RecordID(rawValue: "\(Self.kind).\(Base64URL.encode(name.bytes))"), kind: Self.kind,
            label: Endpoint(context.issuer)?.authority, in: records)
    }
}
