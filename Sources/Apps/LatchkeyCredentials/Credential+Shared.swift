public import Latchkey
internal import Synchronization

/// The app's shared store. The app sets it when it starts:
///
/// ```swift
/// try await CredentialStore.bootstrap(CredentialStore(records: records, presence: presence))
/// ```
extension Credential {
    private struct Shared {
        var store: CredentialStore?
        /// The objects that live as long as the store is shared, by id.
        var kept: [String: Credential] = [:]
    }

    private static let shared = Mutex(Shared())

    /// The store of the static functions. ``CredentialStore/bootstrap(_:)`` sets it; set it to use
    /// another store.
    public static var storage: CredentialStore? {
        get { shared.withLock { $0.store } }
        set {
            // The previous objects are released after the lock.
            _ = shared.withLock { shared in
                let previous = shared
                if shared.store !== newValue { shared = Shared(store: newValue) }
                return previous
            }
        }
    }

    /// Keeps the object of a credential of the shared store until the credential is removed. The
    /// app then always gets the same object, and the automatic refresh of the object continues.
    func keep() {
        Self.shared.withLock { shared in
            if shared.store === store { shared.kept[id] = self }
        }
    }

    /// Releases the object that ``keep()`` keeps.
    func release() {
        _ = Self.shared.withLock { shared in
            shared.store === store ? shared.kept.removeValue(forKey: id) : nil
        }
    }

    static var requiredStorage: CredentialStore {
        get throws {
            guard let storage else { throw CredentialError.notConfigured }
            return storage
        }
    }

    /// Stores a token that only this device can open. The first credential of a store becomes the
    /// default.
    ///
    /// - Parameters:
    ///   - token: A token whose id is not stored.
    ///   - tags: At most 64; names of 1 to 64 bytes, values of at most 1024, without control
    ///     characters.
    /// - Throws: ``CredentialError`` with code `duplicate`; `KeystoreError` with code `wrongState`
    ///   before ``CredentialStore/bootstrap(_:)``.
    @discardableResult
    public static func store(token: Token, tags: [String: String] = [:]) throws -> Credential {
        try requiredStorage.store(token, tags: tags)
    }

    /// Stores a token that the hardware opens only after the user verification of `security`. The
    /// first token with a PIN prompts for a new PIN; later ones prompt for that PIN.
    ///
    /// - Parameter reason: The reason in the prompt, as the end of "APPLICATION asks for your PIN to
    ///   …". If nil, it names the token's server.
    /// - Throws: ``CredentialError`` with code `duplicate`; `KeystoreError`, `unsupported` if the
    ///   hardware can't enforce the policy.
    @discardableResult
    public static func store(
        token: Token, tags: [String: String] = [:], security: AccessPolicy, reason: String? = nil
    ) async throws -> Credential {
        try await requiredStorage.store(token, tags: tags, security: security, reason: reason)
    }

    /// Stores a token as the other function of this name does. The default policy is
    /// `.userPresence` if a fingerprint can be checked on this machine now, otherwise `.pin`.
    ///
    /// - Parameters:
    ///   - security: nil for the default policy. `.none` is `AccessPolicy.none`: no user
    ///     verification.
    ///   - reason: The reason in the prompt; if nil, it names the token's server.
    @discardableResult @_disfavoredOverload
    public static func store(
        token: Token, tags: [String: String] = [:], security: AccessPolicy?, reason: String? = nil
    ) async throws -> Credential {
        try await requiredStorage.store(token, tags: tags, security: security, reason: reason)
    }

    /// The stored credential with the token's id. Stores the token if it is not stored. Every call
    /// with this token returns the same object until the credential is removed or ``storage`` is
    /// set to another store.
    public static func with(token: Token) throws -> Credential {
        let credential = try requiredStorage.credential(for: token)
        credential.keep()
        return credential
    }

    /// The credential with this id. While it is in use, every call returns the same object. Does not
    /// prompt.
    ///
    /// - Parameter prompt: The reason in the prompts of later calls of this object that have no
    ///   reason of their own, as the end of "APPLICATION asks for your PIN to …". nil changes
    ///   nothing. A task that shares the object and needs its own text passes it to each call.
    /// - Returns: nil if it is not stored.
    public static func with(id: String, prompt: String? = nil) throws -> Credential? {
        try requiredStorage.credential(id: id)?.prompting(prompt)
    }

    /// The credential, with a text for the prompts of later calls.
    private func prompting(_ text: String?) -> Credential {
        if let text { prompt.withLock { $0 = text } }
        return self
    }

    /// The credentials that match, oldest first. Opens no token, does not prompt, and reads only
    /// the matching rows.
    ///
    /// Rows that can't be read are left out, and reported as ``CredentialEvent/unreadable(_:)``.
    ///
    /// - Parameter prompt: As in ``with(id:prompt:)``, for each of the credentials.
    public static func find(
        where query: (CredentialAttributes) -> CredentialQuery, prompt: String? = nil
    ) throws -> [Credential] {
        try requiredStorage.find(where: query).map { $0.prompting(prompt) }
    }

    /// The credentials whose metadata satisfies `isIncluded`, oldest first. Opens no token and does
    /// not prompt. Reads the metadata of all credentials, some hundred at a time.
    ///
    /// `isIncluded` may use and change the store, since no lock is held while it runs. The result
    /// is therefore not a snapshot: a credential that is stored, changed or removed at the same
    /// time may be seen before or after the change, or not at all. Every other credential is seen
    /// once.
    ///
    /// Rows that can't be read are left out, and reported as ``CredentialEvent/unreadable(_:)``.
    ///
    /// - Parameter prompt: As in ``with(id:prompt:)``, for each of the credentials.
    @_disfavoredOverload
    public static func find(
        where isIncluded: (Token.Metadata) throws -> Bool, prompt: String? = nil
    ) throws -> [Credential] {
        try requiredStorage.find(where: isIncluded).map { $0.prompting(prompt) }
    }

    /// The ids of all credentials, in the order in which they were stored. Does not read their
    /// metadata.
    public static var allIDs: [String] {
        get throws { try requiredStorage.allIDs }
    }

    /// Every credential, in the order in which they were stored. No token is opened.
    public static var allCredentials: [Credential] {
        get throws { try requiredStorage.allCredentials }
    }

    /// The app's default credential. It is stored. While it is the default, every access returns
    /// the same object.
    ///
    /// This property can't throw. If an access fails, it reads as nil or stays unchanged, and
    /// ``CredentialEvent/failed(_:)`` has the error. ``CredentialStore/defaultCredential`` and
    /// ``CredentialStore/setDefault(_:)`` throw.
    public static var `default`: Credential? {
        get {
            let credential = reporting(storage) { try requiredStorage.defaultCredential } ?? nil
            credential?.keep()
            return credential
        }
        set { reporting(storage) { try requiredStorage.setDefault(newValue) } }
    }

    /// Runs `body` for an API that can't throw, and publishes its error.
    @discardableResult
    static func reporting<R>(_ store: CredentialStore?, _ body: () throws -> R) -> R? {
        do {
            return try body()
        } catch {
            if let store {
                store.publish(.failed(error))
            } else {
                CredentialNotification.post(.failed(error))
            }
            return nil
        }
    }
}
