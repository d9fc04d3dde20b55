package import FoundationEssentials
package import Latchkey
package import LatchkeyJOSE

/// Servers' metadata and keys, cached for an hour.
package actor ProviderCache {
    private static let lifetime: TimeInterval = 3600
    /// The minimum age of keys, in seconds, before an unknown signature causes another read. It
    /// limits the requests that a hostile token can cause.
    private static let minimumKeyAge: TimeInterval = 30

    private struct Entry<Value: Sendable> {
        let value: Value
        let readAt: Date
    }

    private let now: @Sendable () -> Date
    private var providers: [String: Entry<ProviderMetadata>] = [:]
    private var keySets: [String: Entry<JWKSet>] = [:]

    package init(now: @escaping @Sendable () -> Date) {
        self.now = now
    }

    /// The metadata of a server.
    package func metadata<Code>(
        of issuer: String, over connection: ServerConnection<Code>
    ) async throws(LatchkeyError<Code>) -> ProviderMetadata {
        if let known = providers[issuer], isFresh(known.readAt, for: Self.lifetime) {
            return known.value
        }
        let metadata = try await ProviderMetadata.read(at: issuer, over: connection)
        providers[issuer] = Entry(value: metadata, readAt: now())
        return metadata
    }

    /// The server's keys. Keys that do not suffice are read again, because the server may have
    /// replaced them.
    ///
    /// - Parameter suffice: Whether one of the keys made the signature.
    /// - Returns: Keys that suffice, or the newest.
    /// - Throws: ``OAuthFailure/keysTooFresh`` when the keys do not suffice and were read less than
    ///   30 seconds ago.
    package func keys<Code>(
        of client: OAuthClient<Code>, until suffice: @Sendable (JWKSet) -> Bool = { _ in true }
    ) async throws(LatchkeyError<Code>) -> JWKSet {
        let issuer = client.metadata.issuer
        if let known = keySets[issuer], isFresh(known.readAt, for: Self.lifetime) {
            guard !suffice(known.value) else { return known.value }
            guard !isFresh(known.readAt, for: Self.minimumKeyAge) else {
                throw LatchkeyError(.keysTooFresh)
            }
        }
        let keys = try await client.keys()
        keySets[issuer] = Entry(value: keys, readAt: now())
        return keys
    }

    private func isFresh(_ readAt: Date, for age: TimeInterval) -> Bool {
        (0..<age).contains(now().timeIntervalSince(readAt))
    }
}
