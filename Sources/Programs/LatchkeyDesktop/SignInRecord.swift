package import FoundationEssentials
package import Latchkey

/// The stored data of one user: the secret of a keyring, sealed by the TPM, and encrypted under the
/// login password. Without a keyring, a secret that opens nothing.
///
/// It contains no secret that a reader could use without the TPM or the password. Its bytes come
/// from a disk, so decoding checks all of them.
package struct SignInRecord: Hashable, Sendable {
    package enum State: String, Codable, Sendable {
        /// Both copies exist, and a keyring's own secret is either the old or the new one.
        case pending
        /// A keyring has the secret.
        case active
    }

    /// A copy under a login password.
    package struct Wrap: Hashable, Sendable {
        /// The generation of the record that was written with it, to which it is bound.
        package let generation: UInt64
        /// Whether another password was set without this copy's password, so that it no longer
        /// opens at a sign-in.
        package var isStale: Bool
        /// Whether one request gave its password and the proof under which the secret is sealed, or
        /// PAM changed such a password to this one. The proof may sign in only after a sign-in with it.
        package fileprivate(set) var isOfSeal: Bool
        package let wrap: PasswordWrap

        package init(
            generation: UInt64, isStale: Bool = false, isOfSeal: Bool, wrap: PasswordWrap
        ) {
            (self.generation, self.isStale, self.wrap) = (generation, isStale, wrap)
            self.isOfSeal = isOfSeal
        }
    }

    package static let maximumSealedLength = 4096
    /// The newest copy, and the last one that a sign-in has proven, until one proves the newest.
    package static let maximumWraps = 2
    private static let version = 1
    private static let maximumNameLength = 256

    package let user: UInt32
    package let name: String
    package let kind: KeyringKind
    package var state: State
    /// One more at each write, so that an old file is recognized.
    package private(set) var generation: UInt64
    /// The sealed secret and its policy, opaque here; nil if the TPM can no longer open it.
    package var sealed: [UInt8]?
    /// At most ``maximumWraps``, the newest first.
    package private(set) var wraps: [Wrap]

    /// A new record without copies, of generation 0, which is not stored.
    package init(user: UInt32, name: String, kind: KeyringKind, state: State = .pending) {
        (self.user, self.name, self.kind, self.state) = (user, name, kind, state)
        (generation, sealed, wraps) = (0, nil, [])
    }

    /// Whether the secret can be opened by anything. A record without a copy is never stored.
    package var hasCopy: Bool { sealed != nil || !wraps.isEmpty }

    /// The secret that the TPM opens at a sign-in; nil without a keyring, where it only checks the PIN.
    package var sealedForKeyring: [UInt8]? { kind == .withoutKeyring ? nil : sealed }

    /// The binding of the next copy under a password: the next write stores it.
    package var nextBinding: PasswordWrap.Binding {
        PasswordWrap.Binding(user: user, generation: generation + 1, kind: kind)
    }

    /// Adds the newest copy, made with ``nextBinding``. The oldest one stays, which a sign-in has
    /// proven; one between them, which none has proven, is replaced.
    ///
    /// - Parameter isOfSeal: Whether PAM changed a password with ``Wrap/isOfSeal`` to this one.
    package mutating func add(_ wrap: PasswordWrap, isOfSeal: Bool = false) {
        let new = Wrap(generation: generation + 1, isOfSeal: isOfSeal, wrap: wrap)
        wraps = [new] + wraps.suffix(Self.maximumWraps - 1)
    }

    /// Replaces the sealed secret.
    ///
    /// - Parameter index: The copy whose password was given with the proof under which it is sealed.
    package mutating func seal(_ sealed: [UInt8], with index: Int) {
        self.sealed = sealed
        for other in wraps.indices { wraps[other].isOfSeal = other == index }
    }

    /// Lets no proof sign in until the secret is sealed again. The sealed one stays, because it can be
    /// the last one that opens.
    package mutating func endSignIn() {
        for index in wraps.indices { wraps[index].isOfSeal = false }
    }

    /// The sealed secret whose proof a sign-in can still prove.
    package var provableSeal: [UInt8]? { wraps.contains(where: \.isOfSeal) ? sealed : nil }

    /// Removes the other copies, after PAM has accepted the password of one. Marks it as fresh. The
    /// sealed secret goes too if it belongs to another password: its proof may be another program's.
    package mutating func keepOnly(_ index: Int) {
        guard wraps.indices.contains(index) else { return }
        wraps = [wraps[index]]
        wraps[0].isStale = false
        if !wraps[0].isOfSeal { sealed = nil }
    }

    /// Marks all copies, after a password change without the old password.
    package mutating func markStale() {
        for index in wraps.indices { wraps[index].isStale = true }
    }

    /// Opens a copy with a login password: first the newest, then the one before.
    ///
    /// - Returns: The secret and the copy's index; nil if no copy opens.
    package func open(password: SecretBytes) throws(CommonError) -> (
        secret: SecretBytes, index: Int
    )? {
        for (index, entry) in wraps.enumerated() {
            let binding = PasswordWrap.Binding(
                user: user, generation: entry.generation, kind: kind)
            if let secret = try entry.wrap.open(password: password, binding: binding) {
                return (secret, index)
            }
        }
        return nil
    }

    /// This record with the generation of the next write.
    func next() -> SignInRecord {
        var record = self
        record.generation += 1
        return record
    }
}

extension SignInRecord {
    private struct Stored: Codable {
        struct Wrap: Codable {
            let generation: UInt64
            let isStale: Bool
            let isOfSeal: Bool
            let logRounds: Int
            let salt: Data
            let box: Data
        }

        struct Version: Decodable { let version: Int }

        let version: Int
        let user: UInt32
        let name: String
        let kind: String
        let state: State
        let generation: UInt64
        let sealed: Data?
        let wraps: [Wrap]
    }

    /// The record as JSON.
    package func encoded() throws(CommonError) -> Data {
        let stored = Stored(
            version: Self.version, user: user, name: name, kind: kind.description, state: state,
            generation: generation, sealed: sealed.map { Data($0) },
            wraps: wraps.map {
                Stored.Wrap(
                    generation: $0.generation, isStale: $0.isStale, isOfSeal: $0.isOfSeal,
                    logRounds: $0.wrap.logRounds, salt: $0.wrap.salt, box: $0.wrap.box)
            })
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        guard let bytes = try? encoder.encode(stored) else {
            throw .damaged("the record cannot be encoded")
        }
        return bytes
    }

    /// Reads a record, and checks each value.
    ///
    /// - Parameter user: The user whose record this must be.
    /// - Throws: `CommonError`: `damaged`; `unsupported` for a record of another version.
    package init(decoding bytes: Data, user: UInt32) throws(CommonError) {
        let decoder = JSONDecoder()
        if let version = (try? decoder.decode(Stored.Version.self, from: bytes))?.version,
            version != Self.version
        {
            throw .unsupported(
                "the record of the keyring has version \(version)",
                recovery: "Install the version of the package that stored it.")
        }
        guard let stored = try? decoder.decode(Stored.self, from: bytes) else {
            throw .damaged("the record of the keyring has another format")
        }
        guard stored.user == user else {
            throw .damaged("the record of the keyring is another user's")
        }
        guard let kind = KeyringKind(name: stored.kind), stored.name.utf8.count > 0,
            stored.name.utf8.count <= Self.maximumNameLength,
            (1..<UInt64.max).contains(stored.generation),
            stored.wraps.count <= Self.maximumWraps,
            stored.wraps.allSatisfy({ (1...stored.generation).contains($0.generation) }),
            zip(stored.wraps, stored.wraps.dropFirst()).allSatisfy({ $0.generation > $1.generation }
            ),
            (1...Self.maximumSealedLength).contains(stored.sealed?.count ?? 1)
        else { throw .damaged("a value in the record of the keyring is out of its bounds") }
        self.init(user: user, name: stored.name, kind: kind, state: stored.state)
        generation = stored.generation
        sealed = stored.sealed.map { Array($0) }
        for entry in stored.wraps {
            guard
                let wrap = PasswordWrap(
                    logRounds: entry.logRounds, salt: entry.salt, box: entry.box, kind: kind)
            else { throw .damaged("a copy in the record of the keyring is out of its bounds") }
            wraps.append(
                Wrap(
                    generation: entry.generation, isStale: entry.isStale,
                    isOfSeal: entry.isOfSeal, wrap: wrap))
        }
        guard hasCopy else { throw .damaged("the record of the keyring has no copy") }
    }
}
