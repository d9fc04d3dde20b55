internal import FoundationEssentials
internal import HTTPTypes
internal import Latchkey

/// What servers say about themselves, kept for an hour: their endpoints and their keys.
actor ServerDirectory {
    private static let life: TimeInterval = 3600
    /// How old keys are at least before they are read again because of a signature that none of them made: a hostile
    /// token must not cause a storm.
    private static let patience: TimeInterval = 30

    private struct Known<Value: Sendable> {
        let value: Value
        let since: Date
    }

    private let transport: any HTTPTransport
    private let clock: any CredentialClock
    private var providers: [String: Known<ProviderMetadata>] = [:]
    private var keySets: [String: Known<JWKSet>] = [:]

    init(transport: any HTTPTransport, clock: any CredentialClock) {
        self.transport = transport
        self.clock = clock
    }

    /// The server's discovery document.
    ///
    /// - Throws: ``CredentialError`` with code `invalidResponse` when it names another issuer than the address under
    ///   which it was found (OpenID Connect Discovery section 4.3).
    func provider(_ issuer: String, _ operation: String) async throws(CredentialError) -> ProviderMetadata {
        if let known = providers[issuer], isYounger(known.since, than: Self.life) { return known.value }
        guard let endpoint = Endpoint(issuer), !endpoint.path.contains("?") else {
            throw .invalidInput(operation, "‘\(issuer)’ is neither an https address nor on this machine")
        }
        let provider = try await ServerWire(transport: transport, operation: operation)
            .json(ProviderMetadata.self, endpoint.appending(ProviderMetadata.path).request(.get))
        guard Self.isSame(provider.issuer, issuer) else {
            throw .invalidResponse(operation, "the server calls itself ‘\(provider.issuer)’ and not ‘\(issuer)’")
        }
        providers[issuer] = Known(value: provider, since: clock.now)
        return provider
    }

    /// The server's keys, not older than an hour.
    func keys(_ provider: ProviderMetadata, _ operation: String) async throws(CredentialError) -> JWKSet {
        if let known = keySets[provider.issuer], isYounger(known.since, than: Self.life) { return known.value }
        return try await readKeys(provider, operation)
    }

    /// The server's keys, read again unless they do what they are wanted for: the server may have changed them.
    ///
    /// - Parameter suffice: Whether these keys made the signature.
    /// - Returns: Keys that suffice, or the newest that there are.
    /// - Throws: ``CredentialError``; `transient` when they don't suffice and were read less than 30 seconds ago: then
    ///   nobody knows yet.
    func keys(
        _ provider: ProviderMetadata, _ operation: String, until suffice: @Sendable (JWKSet) -> Bool
    ) async throws(CredentialError) -> JWKSet {
        guard let known = keySets[provider.issuer], isYounger(known.since, than: Self.life) else {
            return try await readKeys(provider, operation)
        }
        guard !suffice(known.value) else { return known.value }
        guard !isYounger(known.since, than: Self.patience) else { throw .keysTooFresh(operation) }
        return try await readKeys(provider, operation)
    }

    private func readKeys(_ provider: ProviderMetadata, _ operation: String) async throws(CredentialError) -> JWKSet {
        let keys = try await ServerWire(transport: transport, operation: operation)
            .json(JWKSet.self, provider.keys.request(.get))
        keySets[provider.issuer] = Known(value: keys, since: clock.now)
        return keys
    }

    private func isYounger(_ since: Date, than age: TimeInterval) -> Bool {
        (0..<age).contains(clock.now.timeIntervalSince(since))
    }

    /// A slash at the end of an address says nothing.
    private static func isSame(_ left: String, _ right: String) -> Bool {
        func bare(_ text: String) -> Substring { text.hasSuffix("/") ? text.dropLast() : text[...] }
        return bare(left) == bare(right)
    }
}
