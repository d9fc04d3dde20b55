internal import FoundationEssentials
internal import Latchkey

/// The rows of the credentials.
///
/// | id | holds |
/// |---|---|
/// | `credential.metadata.ID` | the searchable data: tags, claims, server, client, expiry; not encrypted, authenticated |
/// | `credential.token.ID` | the token, encrypted with the device key or its own key-encryption key |
/// | `credential.pending.ID` | the server's latest response if it is not in use (yet), sealed with that key |
/// | `credential.dpop.HASH` | the key to which a server binds the tokens of a client |
/// | `credential.default` | the id of the default credential |
///
/// The first two rows of a credential are written and deleted in one transaction. They are separate
/// so that tags can be changed without opening the token, and a search reads no token. The
/// key-encryption key of a token with a policy is made and deleted together with the token, so that
/// an attacker cannot prepare it.
struct CredentialRows: Sendable {
    static let kind = "credential"
    static let tokenKind = "credential.token"
    static let defaultID: RecordID = "credential.default"

    let records: RecordContainer

    // MARK: Reading on the caller's thread

    /// The metadata, not verified. Does not use the hardware.
    func metadata(_ id: String) throws -> Token.Metadata? {
        guard Token.isID(id) else { return nil }
        return try records.metadataNow(Self.metadataID(id)).map(Self.metadata)
    }

    func exists(_ id: String) throws -> Bool {
        try Token.isID(id) && records.exists(Self.metadataID(id))
    }

    var ids: [String] {
        get throws { try records.idsNow(Self.kind).map { Self.id(of: $0) } }
    }

    /// The key-encryption key of the token, not verified: the hardware enforces it.
    func protection(_ id: String) throws -> ProtectionClass? {
        guard Token.isID(id) else { return nil }
        return try records.metadataNow(Self.tokenID(id))?.protection
    }

    /// The generation of the token's row. It increases with each change of the token by any
    /// program.
    func tokenGeneration(_ id: String) throws -> Int? {
        guard Token.isID(id) else { return nil }
        return try records.metadataNow(Self.tokenID(id))?.generation
    }

    /// Both rows, verified. The keys must be open.
    func stored(_ id: String) throws -> StoredCredential? {
        guard Token.isID(id) else { return nil }
        guard let (metadata, _) = try records.readNow(Self.metadataID(id)) else { return nil }
        guard
            let (row, payload) = try records.readNow(Self.tokenID(id)), let payload,
            let token = try payload.withUnsafeBytes({ try Self.token(Data($0), id) })
        else {
            throw KeystoreError.damaged(
                "the token of the credential ‘\(id)’ is missing or can't be read")
        }
        guard
            try Self.metadata(metadata).security == row.protection.policy.requirement,
            try !records.isDowngraded(row.id, from: Self.classes(id))
        else {
            throw KeystoreError.damaged(
                "the token of the credential ‘\(id)’ is less protected than before")
        }
        return StoredCredential(
            token: token, metadata: metadata, protection: row.protection,
            tokenGeneration: row.generation)
    }

    /// Whether the rows of a credential can be read on this hardware, or, for a token with a policy,
    /// its metadata. The device key must be open.
    func isReadable(_ id: String) throws -> Bool {
        do {
            guard try protection(id)?.policy == AccessPolicy.none else {
                return try records.readNow(Self.metadataID(id)) != nil
            }
            return try stored(id) != nil
        } catch let error as KeystoreError
            where [.damaged, .unsupported, .wrongDevice].contains(error.code)
        {
            return false
        }
    }

    /// The server's latest response, if it is not in use yet. The token's key must be open.
    func pendingAnswer(to stored: StoredCredential) throws -> RefreshAnswer? {
        guard let (_, payload) = try records.readNow(Self.pendingID(stored.token.id)), let payload
        else { return nil }
        return try answer(in: payload, to: stored)
    }

    func answer(in sealed: SecretBytes, to stored: StoredCredential) throws -> RefreshAnswer {
        let id = stored.token.id
        return try RefreshAnswer(
            records.open(sealed, of: stored.protection, for: Self.pendingID(id)), id: id)
    }

    /// - Returns: nil if the payload is not a token with this id.
    /// - Throws: `KeystoreError` with code `unsupported` for a token that a newer version wrote.
    private static func token(_ json: Data, _ id: String) throws -> Token? {
        struct Version: Decodable {
            let version: Int
        }
        let decoder = JSONDecoder()
        if let token = try? decoder.decode(Token.self, from: json) {
            return token.id == id ? token : nil
        }
        guard let version = try? decoder.decode(Version.self, from: json).version,
            version > Token.formatVersion
        else {
            return nil
        }
        throw KeystoreError.unsupported(
            "a newer version of Latchkey wrote the credential ‘\(id)’",
            recovery: "Install that version.")
    }

    /// The id of the default credential and the generation of its row; verified if the device key
    /// is open.
    var existingDefault: (id: String, generation: Int)? {
        get throws {
            let row =
                records.session(.device) == nil
                ? try records.metadataNow(Self.defaultID)
                : try records.readNow(Self.defaultID)?.record
            guard let row else { return nil }
            guard let id = row.attributes[Self.defaultAttribute] else {
                throw KeystoreError.damaged("the row of the default credential names no credential")
            }
            return (id, row.generation)
        }
    }

    /// ``existingDefault``, or nil if its row can't be read.
    var knownDefault: (id: String, generation: Int)? {
        get throws {
            do {
                return try existingDefault
            } catch let error as KeystoreError {
                guard error.code == .damaged else { throw error }
                return nil
            }
        }
    }

    /// The generation of the row that names the default: 0 without a row, nil if it can't be read.
    var defaultGeneration: Int? {
        do {
            return try records.metadataNow(Self.defaultID)?.generation ?? 0
        } catch {
            return nil
        }
    }

    // MARK: Changes

    /// Both rows of a new credential.
    static func insertion(
        _ token: Token, metadata: Record, in protection: ProtectionClass
    ) throws -> [RecordChange] {
        let row = Record(id: tokenID(token.id), kind: tokenKind, protection: protection)
        return [
            .put(metadata, payload: nil, ifGeneration: 0),
            .put(row, payload: try payload(token), ifGeneration: 0),
            .delete(pendingID(token.id), ifGeneration: nil),
        ]
    }

    /// Replaces the token that was read.
    static func replacement(_ stored: StoredCredential, with token: Token) throws -> RecordChange {
        let row = Record(id: tokenID(token.id), kind: tokenKind, protection: stored.protection)
        return .put(row, payload: try payload(token), ifGeneration: stored.tokenGeneration)
    }

    /// Stores the server's response, sealed with the token's key.
    static func deposit(_ sealed: SecretBytes, _ id: String) -> RecordChange {
        .put(
            Record(id: pendingID(id), kind: "credential.pending"), payload: sealed,
            ifGeneration: nil)
    }

    static func deletion(_ id: String) -> [RecordChange] {
        [metadataID(id), tokenID(id), pendingID(id)].map { .delete($0, ifGeneration: nil) }
    }

    static func put(defaultID id: String, ifGeneration: Int? = nil) -> RecordChange {
        let row = Record(
            id: defaultID, kind: "credential.default", attributes: [defaultAttribute: id])
        return .put(row, payload: nil, ifGeneration: ifGeneration)
    }

    private static let defaultAttribute = "id"

    private static func payload(_ token: Token) throws -> SecretBytes {
        SecretBytes(try JSONEncoder().encode(token))
    }

    // MARK: Names

    private static let metadataPrefix = "credential.metadata."

    static func metadataID(_ id: String) -> RecordID { RecordID(rawValue: metadataPrefix + id) }
    static func tokenID(_ id: String) -> RecordID { RecordID(rawValue: "credential.token." + id) }
    static func pendingID(_ id: String) -> RecordID {
        RecordID(rawValue: "credential.pending." + id)
    }
    /// The key-encryption keys of a token with a policy.
    static func classes(_ id: String) -> ClassFamily { ClassFamily(UnlockCache.facade, of: id) }
    static func id(of row: RecordID) -> String {
        String(row.rawValue.dropFirst(metadataPrefix.count))
    }
}

/// A credential's rows, opened and verified.
struct StoredCredential: Sendable {
    let token: Token
    let metadata: Record
    let protection: ProtectionClass
    let tokenGeneration: Int
}
