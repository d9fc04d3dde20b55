public import Latchkey

/// The functions of the shared store, which ``CredentialStore/bootstrap(_:)`` names. Without one they throw
/// `KeystoreError` with code `wrongState`.
extension Credential {
    /// Stores a token: ``CredentialStore/store(token:tags:security:)``.
    @discardableResult
    public static func store(
        token: Token, tags: [String: String] = [:], security: AccessPolicy = .none
    ) async throws(KeystoreError) -> Credential {
        try await shared().store(token: token, tags: tags, security: security)
    }

    /// Stores a token, on the caller's own thread.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    @discardableResult
    public static func store(
        token: Token, tags: [String: String] = [:], security: AccessPolicy = .none
    ) throws(KeystoreError) -> Credential {
        try shared().store(token: token, tags: tags, security: security)
    }

    /// The credential of a token, which is stored if it isn't yet. The same token gives the same object.
    public static func with(token: Token) async throws(KeystoreError) -> Credential {
        try await shared().with(token: token)
    }

    /// The credential of a token, which is stored if it isn't yet, on the caller's own thread.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public static func with(token: Token) throws(KeystoreError) -> Credential {
        try shared().with(token: token)
    }

    /// The credential of this id; nil without one.
    public static func with(id: String) throws(KeystoreError) -> Credential? {
        try shared().with(id: id)
    }

    /// The credentials that match, oldest first: ``CredentialStore/find(where:)``.
    public static func find(
        where condition: (CredentialFields) -> CredentialQuery
    ) throws(KeystoreError) -> [Credential] {
        try shared().find(where: condition)
    }

    /// The credentials for which `isWanted` is true, oldest first. Looks at every credential.
    @_disfavoredOverload
    public static func find(where isWanted: (Token.Metadata) throws -> Bool) throws -> [Credential] {
        try shared().find(where: isWanted)
    }

    /// All credentials, in the order in which they were stored; none when they can't be read.
    public static var allCredentials: [Credential] { (try? shared().all()) ?? [] }

    /// The ids of all credentials, in the order in which they were stored; none when they can't be read.
    public static var allIDs: [String] { (try? shared().allIDs()) ?? [] }

    /// The credential that the app uses when it doesn't say which, also after a restart; nil when there is none.
    ///
    /// The first token that is stored becomes the default. Setting another keeps what was there. A property can't throw:
    /// ``CredentialStore/defaultCredential()`` and ``CredentialStore/setDefault(_:)`` do, and what goes wrong here is told
    /// as ``CredentialEvent/failed(_:)``.
    public static var `default`: Credential? {
        get {
            reporting { store throws(KeystoreError) in try store.defaultCredential() } ?? nil
        }
        set {
            reporting { store throws(KeystoreError) in try store.setDefaultNow(newValue) }
        }
    }

    @discardableResult
    private static func reporting<R>(_ body: (CredentialStore) throws(KeystoreError) -> R) -> R? {
        guard let store = CredentialStore.shared else { return nil }
        do throws(KeystoreError) {
            return try body(store)
        } catch {
            store.tell(.failed(error))
            return nil
        }
    }

    private static func shared() throws(KeystoreError) -> CredentialStore {
        guard let store = CredentialStore.shared else {
            throw KeystoreError(
                operation: "use the credentials", code: .wrongState,
                reason: "this program has not named its credential store",
                recovery: "Call CredentialStore.bootstrap when the program starts.")
        }
        return store
    }
}
