public import Latchkey
internal import Synchronization

/// The app's shared store. The app sets it when it starts:
///
/// ```swift
/// try await CredentialStore.bootstrap(CredentialStore(records: records, presence: presence))
/// ```
extension Credential {
    private static let shared = Mutex<CredentialStore?>(nil)

    /// The store of the static functions. Set it once, before their first use.
    public static var storage: CredentialStore? {
        get { shared.withLock { $0 } }
        set { shared.withLock { $0 = newValue } }
    }

    private static var requiredStorage: CredentialStore {
        get throws {
            guard let storage else { throw CredentialError.notConfigured() }
            return storage
        }
    }

    /// ``CredentialStore/store(_:tags:)``.
    @discardableResult
    public static func store(token: Token, tags: [String: String] = [:]) throws -> Credential {
        try requiredStorage.store(token, tags: tags)
    }

    /// ``CredentialStore/store(_:tags:security:)``.
    @discardableResult
    public static func store(
        token: Token, tags: [String: String] = [:], security: AccessPolicy
    ) async throws -> Credential {
        try await requiredStorage.store(token, tags: tags, security: security)
    }

    /// ``CredentialStore/credential(for:)``.
    public static func with(token: Token) throws -> Credential {
        try requiredStorage.credential(for: token)
    }

    /// ``CredentialStore/credential(id:)``.
    public static func with(id: String) throws -> Credential? {
        try requiredStorage.credential(id: id)
    }

    /// The credentials that match. An index answers the query.
    public static func find(where query: (CredentialAttributes) -> CredentialQuery) throws -> [Credential] {
        try requiredStorage.find(where: query)
    }

    /// The credentials whose metadata satisfies `isIncluded`. Reads the metadata of all credentials.
    @_disfavoredOverload
    public static func find(where isIncluded: (Token.Metadata) throws -> Bool) throws -> [Credential] {
        try requiredStorage.find(where: isIncluded)
    }

    /// ``CredentialStore/allIDs``.
    public static var allIDs: [String] {
        get throws { try requiredStorage.allIDs }
    }

    /// ``CredentialStore/allCredentials``.
    public static var allCredentials: [Credential] {
        get throws { try requiredStorage.allCredentials }
    }

    /// The app's default credential. It is stored.
    ///
    /// This property can't throw. If an access fails, it reads as nil or stays unchanged, and
    /// ``CredentialEvent/failed(_:)`` has the error. ``CredentialStore/defaultCredential`` and
    /// ``CredentialStore/setDefault(_:)`` throw.
    public static var `default`: Credential? {
        get { reporting { try $0.defaultCredential } ?? nil }
        set { reporting { try $0.setDefault(newValue) } }
    }

    @discardableResult
    private static func reporting<R>(_ body: (CredentialStore) throws -> R) -> R? {
        guard let storage else {
            CredentialNotification.post(.failed(CredentialError.notConfigured()))
            return nil
        }
        return storage.reporting { try body(storage) }
    }
}
