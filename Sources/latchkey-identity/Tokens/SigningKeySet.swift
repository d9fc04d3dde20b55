import JWTKit
import LatchkeyJOSE

/// The keys of one algorithm at the time when they were read.
struct SigningKeySet: Sendable {
    /// In the order in which they sign.
    let keys: [SigningKey]
    /// Seconds since 1970.
    let readAt: Double
    private let schedule: SigningKeySchedule
    private let collection = JWTKeyCollection()

    /// - Throws: ``ConfigurationError`` if there is no key.
    init(_ keys: [SigningKey], _ schedule: SigningKeySchedule, readAt: Double) async throws {
        guard !keys.isEmpty else {
            throw ConfigurationError("the database contains no signing key", "Start the server again.")
        }
        self.keys = keys
        self.schedule = schedule
        self.readAt = readAt
        for index in schedule.verifying(at: readAt) { try await keys[index].add(to: collection) }
    }

    /// Whether a key has expired, so that it can be deleted.
    var hasExpired: Bool { schedule.verifying(at: readAt).count < keys.count }

    /// The public keys in the key set.
    func published(at now: Double) -> [LatchkeyJOSE.JWK] { schedule.published(at: now).map { keys[$0].jwk } }

    func sign(_ token: IDToken, at now: Double) async throws -> String {
        try await collection.sign(token, kid: JWKIdentifier(string: keys[schedule.current(at: now)].kid))
    }

    /// The claims of a token that one of the keys signed, expired or not.
    func verify(_ text: String) async -> IDToken? { try? await collection.verify(text, as: IDToken.self) }
}
