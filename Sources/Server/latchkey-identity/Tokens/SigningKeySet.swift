import JWTKit
import LatchkeyJOSE

/// The stored keys at the time when they were read. The server publishes the keys of all algorithms
/// and signs with one algorithm, so that a change of the algorithm does not invalidate tokens.
struct SigningKeySet: Sendable {
    /// The keys of an algorithm.
    private struct Chain: Sendable {
        /// In the order in which they sign.
        let keys: [SigningKey]
        let schedule: SigningKeySchedule
    }

    /// Seconds since 1970.
    let readAt: Double
    private let chains: [Chain]
    private let signing: Chain
    private let collection = JWTKeyCollection()

    /// Opens the keys.
    ///
    /// - Throws: ``ConfigurationError`` if a key cannot be opened, or the algorithm has no key.
    init(
        _ rows: [StoredSigningKey], _ cipher: SigningKeyCipher?,
        signing algorithm: SigningKey.Algorithm, readAt: Double
    ) async throws {
        var chains: [SigningKey.Algorithm: Chain] = [:]
        for (algorithm, rows) in Dictionary(grouping: rows, by: \.algorithm) {
            let schedule = SigningKeySchedule(rows.map(\.signsFrom))
            chains[algorithm] = Chain(keys: try rows.map { try $0.key(cipher) }, schedule: schedule)
        }
        guard let signing = chains[algorithm] else {
            throw ConfigurationError(
                "the database contains no signing key", "Start the server again.")
        }
        self.signing = signing
        self.chains = SigningKey.Algorithm.allCases.compactMap { chains[$0] }
        self.readAt = readAt
        for chain in self.chains {
            for index in chain.schedule.verifying(at: readAt) {
                try await chain.keys[index].add(to: collection)
            }
        }
    }

    /// The public keys in the key set.
    func published(at now: Double) -> [LatchkeyJOSE.JWK] {
        chains.flatMap { chain in chain.schedule.published(at: now).map { chain.keys[$0].jwk } }
    }

    func sign(_ token: IDToken, at now: Double) async throws -> String {
        let key = signing.keys[signing.schedule.current(at: now)]
        return try await collection.sign(token, kid: JWKIdentifier(string: key.kid))
    }

    /// The claims of a token that one of the keys signed, expired or not.
    func verify(_ text: String) async -> IDToken? {
        try? await collection.verify(text, as: IDToken.self)
    }
}
