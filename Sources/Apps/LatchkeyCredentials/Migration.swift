// UserDefaults is in Foundation.
public import Foundation
internal import Latchkey
internal import LatchkeyJOSE

/// Moves the tokens that AuthFoundation stored on Linux into the app's shared store.
///
/// AuthFoundation keeps them as plain text in `UserDefaults`. Tokens of an app's own `TokenStorage`
/// can be decoded: see ``Token/init(from:)``.
public enum Migration {
    /// The names in `UserDefaults`.
    package enum Name {
        package static let tokens = "com.okta.authfoundation.allTokens"
        package static let metadata = "com.okta.authfoundation.tokenMetadata"
        package static let defaultID = "com.okta.authfoundation.defaultToken"
    }

    private struct Metadata: Decodable {
        let tags: [String: String]
    }

    /// Stores AuthFoundation's tokens with their ids and tags, without a policy, and deletes them
    /// from `UserDefaults`. Its default token becomes the default if the store has none. Call it
    /// after ``CredentialStore/bootstrap(_:)``. Without stored tokens, it does nothing.
    ///
    /// A crash loses nothing: the next call stores the rest. A token with the id of a stored
    /// credential that can be read is deleted only; whether one with a policy can be read is not
    /// checked, because that prompts. Other programs could read the tokens before, so revoke them or
    /// refresh them afterwards: servers that replace refresh tokens end the old ones then.
    ///
    /// - Throws: ``CredentialError``; `invalidInput` for tokens that cannot be read, and tokens whose
    ///   stored credential cannot be read. They stay in `UserDefaults`; all others are stored.
    ///   `KeystoreError`.
    public static func migrateIfNeeded(from defaults: UserDefaults = .standard) throws {
        guard let data = defaults.data(forKey: Name.tokens) else { return }
        do {
            try migrate(data, from: defaults, to: Credential.requiredStorage)
        } catch {
            throw error.during("migrate the credentials")
        }
    }

    private static func migrate(
        _ data: Data, from defaults: UserDefaults, to store: CredentialStore
    ) throws {
        let read: ([String: JSONValue], [String: Metadata])
        do {
            read = (
                try JSONDecoder().decode([String: JSONValue].self, from: data),
                try defaults.data(forKey: Name.metadata).map {
                    try JSONDecoder().decode([String: Metadata].self, from: $0)
                } ?? [:]
            )
        } catch {
            throw unreadable("AuthFoundation's tokens are not in its format")
        }
        let (encoded, metadata) = read
        var (tokens, rest) = tokens(in: encoded)
        let hadDefault = try store.defaultCredential != nil
        for token in tokens {
            if try store.credential(id: token.id) == nil {
                try store.store(token, tags: metadata[token.id]?.tags ?? [:])
            } else if try !store.rows.isReadable(token.id) {
                rest[token.id] = encoded[token.id]
            }
        }
        if !hadDefault, let id = defaults.string(forKey: Name.defaultID),
            let credential = try store.credential(id: id)
        {
            try store.setDefault(credential)
        }
        if rest.isEmpty {
            for name in [Name.tokens, Name.metadata, Name.defaultID] {
                defaults.removeObject(forKey: name)
            }
        } else {
            defaults.set(try JSONEncoder().encode(rest), forKey: Name.tokens)
        }
        guard defaults.synchronize() else {
            throw CredentialError(
                code: .refused, reason: "the old tokens cannot be deleted",
                recovery: "Check that the program can write its preferences, then try again.")
        }
        guard rest.isEmpty else {
            let names = rest.keys.sorted().prefix(8).map { "‘\(String(oneLine: $0, limit: 96))’" }
            throw unreadable(
                "the tokens \(names.joined(separator: ", ")), or the stored credentials with their ids, cannot be read"
            )
        }
    }

    /// The tokens, oldest first, and the rest that cannot be read.
    private static func tokens(
        in encoded: [String: JSONValue]
    ) -> (tokens: [Token], rest: [String: JSONValue]) {
        var (tokens, rest) = ([Token](), [String: JSONValue]())
        for (id, value) in encoded {
            if let token = try? Token(authFoundation: value.object ?? [:]), token.id == id {
                tokens.append(token)
            } else {
                rest[id] = value
            }
        }
        return (tokens.sorted { ($0.issuedAt, $0.id) < ($1.issuedAt, $1.id) }, rest)
    }

    private static func unreadable(_ reason: String) -> CredentialError {
        .unreadable(reason, recovery: "Log in again.")
    }
}
