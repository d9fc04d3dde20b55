package import FoundationEssentials
package import Latchkey
package import LatchkeyJOSE

/// Servers' metadata and keys, cached for an hour.
package actor ProviderCache {
    private static let lifetime: TimeInterval = 3600
    /// The minimum seconds between two reads of keys because of an unknown signature. It limits the
    /// requests that a hostile token can cause.
    private static let pauseAfterSecondRead: TimeInterval = 30

    private struct Entry<Value: Sendable> {
        let value: Value
        let readAt: Date
    }

    private let now: @Sendable () -> Date
    private var providers: [String: Entry<ProviderMetadata>] = [:]
    private var keySets: [String: Entry<JWKS>] = [:]
    /// When a server's keys were last read because of an unknown signature.
    private var secondReads: [String: Date] = [:]

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
        return try await readMetadata(of: issuer, over: connection)
    }

    /// Reads the metadata of a server now, also if it is known.
    @discardableResult
    package func readMetadata<Code>(
        of issuer: String, over connection: ServerConnection<Code>
    ) async throws(LatchkeyError<Code>) -> ProviderMetadata {
        let metadata = try await ProviderMetadata.read(at: issuer, over: connection)
        providers[issuer] = Entry(value: metadata, readAt: now())
        return metadata
    }

    /// The server's keys. Keys that do not suffice are read again once, because the server may have
    /// replaced them since: at most every 30 seconds, so that the newest keys are at most as old.
    ///
    /// - Parameter suffice: Whether no other keys are needed.
    package func keys<Code>(
        of client: OAuthClient<Code>, until suffice: @Sendable (JWKS) -> Bool = { _ in true }
    ) async throws(LatchkeyError<Code>) -> JWKS {
        let issuer = client.metadata.issuer
        var isSecond = false
        if let known = keySets[issuer], isFresh(known.readAt, for: Self.lifetime) {
            guard !suffice(known.value) else { return known.value }
            if let last = secondReads[issuer], isFresh(last, for: Self.pauseAfterSecondRead) {
                return known.value
            }
            isSecond = true
        }
        let keys = try await client.keys()
        if isSecond { secondReads[issuer] = now() }
        keySets[issuer] = Entry(value: keys, readAt: now())
        return keys
    }

    private func isFresh(_ readAt: Date, for age: TimeInterval) -> Bool {
        (0..<age).contains(now().timeIntervalSince(readAt))
    }
}
