package import Latchkey
internal import LatchkeyOAuth
internal import Synchronization

/// A stored token and its operations.
///
/// A credential is a handle without secrets. Each use reads the token, and opens it with the
/// hardware if it has a policy, so a credential sees the changes of other programs. While an object
/// for an id exists, the store returns it again.
public final class Credential: Sendable, Identifiable {
    /// The token's id. A refresh does not change it.
    public let id: String
    let store: CredentialStore
    let refresher = Mutex<Task<Void, Never>?>(nil)
    /// The reason in the prompts of calls that have none.
    let prompt = Mutex<String?>(nil)

    init(id: String, store: CredentialStore) {
        self.id = id
        self.store = store
    }

    deinit {
        refresher.withLock { $0?.cancel() }
    }

    /// The token, verified. Prompts if the credential has a policy, unless another use of this
    /// credential has prompted and is still running.
    ///
    /// - Throws: ``CredentialError`` with code `notFound` if it was removed. `KeystoreError`:
    ///   `damaged` if a row was changed by another program, `cancelled`, `wrongProof`, `lockedOut`,
    ///   `wrongDevice`.
    public var token: Token {
        get async throws { try await token(reason: nil) }
    }

    /// The token, as the property of this name, with a text for the prompt.
    ///
    /// - Parameter reason: The reason in the prompt, as the end of "APPLICATION asks for your PIN to
    ///   …". If it is nil here and in the other calls of a credential, the prompt has the text of
    ///   ``with(id:prompt:)`` or ``find(where:prompt:)-((CredentialAttributes)->CredentialQuery,_)``,
    ///   otherwise it names the operation.
    public func token(reason: String?) async throws -> Token {
        try await perform("use the token", reason) { try await stored.token }
    }

    /// The metadata. Does not open the token.
    ///
    /// - Throws: ``CredentialError`` with code `notFound` if it was removed.
    public var metadata: Token.Metadata {
        get throws {
            do {
                guard let metadata = try store.rows.metadata(id) else {
                    throw CredentialError.notFound(id)
                }
                return metadata
            } catch {
                throw error.during("look up the credential")
            }
        }
    }

    /// The user verification that opening the token requires.
    package var security: AccessPolicy {
        get throws { try protection.policy }
    }

    /// The app's labels for `find(where:)`. Setting them does not change the token.
    ///
    /// This property can't throw. If an access fails, it reads as empty or stays unchanged, and
    /// ``CredentialEvent/failed(_:)`` has the error. ``metadata`` and ``setTags(_:)`` throw.
    public var tags: [String: String] {
        get { Self.reporting(store) { try metadata.tags } ?? [:] }
        set { Self.reporting(store) { try setTags(newValue) } }
    }

    /// Replaces the tags.
    ///
    /// - Throws: ``CredentialError``, `KeystoreError`; `conflict` if another program changed them
    ///   at the same time.
    public func setTags(_ tags: [String: String]) throws {
        do {
            try CredentialRows.check(tags: tags)
            guard let (record, _) = try store.records.readNow(CredentialRows.metadataID(id)) else {
                throw CredentialError.notFound(id)
            }
            guard CredentialRows.tags(of: record) != tags else { return }
            try store.records.applyNow([
                .put(
                    CredentialRows.metadata(record, taggedAs: tags), payload: nil,
                    ifGeneration: record.generation)
            ])
            store.publish(.tagsChanged(self))
        } catch {
            throw error.during("tag the credential")
        }
    }

    /// Removes the credential from the store. Does not prompt or use the hardware, and sends no
    /// request: see ``revoke(type:reason:)``. So it also removes a credential whose server is gone,
    /// or whose ``Token/Context`` names another server.
    public func remove() throws {
        do { try store.remove(self) } catch { throw error.during("remove the credential") }
        automaticRefresh = false
    }

    // MARK: Helpers

    /// Performs a public call with the token's keys open. May prompt before `body`.
    ///
    /// - Parameters:
    ///   - operation: The operation in errors, as a verb phrase, and in the prompt if the app has
    ///     given no text for it.
    ///   - reason: The app's text for the prompt of this call.
    func perform<R>(
        _ operation: String, _ reason: String? = nil, _ body: () async throws -> R
    ) async throws -> R {
        let text = reason ?? prompt.withLock { $0 } ?? operation
        do {
            return try await store.unlocked.withOpen(
                protection, for: store.prompt(text), authorizedBy: store.presence, body)
        } catch {
            // The key is deleted together with its credential.
            if (error as? KeystoreError)?.code == .notFound, try !store.rows.exists(id) {
                throw CredentialError.notFound(id).during(operation)
            }
            throw error.during(operation)
        }
    }

    /// Performs a public call that needs the server. If the call would prompt, the server's metadata
    /// is read first: a server that cannot be reached, is another one or has no such endpoint is an
    /// error before the prompt.
    func performAtServer<R>(
        _ endpoint: ProviderMetadata.EndpointName, _ operation: String, _ reason: String?,
        _ body: () async throws -> R
    ) async throws -> R {
        do {
            let protection = try protection
            if protection.policy != .none, store.records.session(protection)?.isOpen != true {
                let metadata = try metadata
                try await store.server(
                    of: Token.Context(issuer: metadata.server, clientID: metadata.clientID)
                ).check(endpoint)
            }
        } catch {
            throw error.during(operation)
        }
        return try await perform(operation, reason, body)
    }

    /// The rows, read on the disk queue.
    var stored: StoredCredential {
        get async throws {
            let (rows, id) = (store.rows, id)
            guard let stored = try await store.disk.run({ try rows.stored(id) }) else {
                throw CredentialError.notFound(id)
            }
            return stored
        }
    }

    private var protection: ProtectionClass {
        get throws {
            if let protection = try store.rows.protection(id) { return protection }
            guard try store.rows.exists(id) else { throw CredentialError.notFound(id) }
            throw KeystoreError.damaged("the token of the credential ‘\(id)’ is missing")
        }
    }
}

extension Credential: Hashable {
    public static func == (left: Credential, right: Credential) -> Bool {
        left.id == right.id && left.store === right.store
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(id)
        hasher.combine(ObjectIdentifier(store))
    }
}
