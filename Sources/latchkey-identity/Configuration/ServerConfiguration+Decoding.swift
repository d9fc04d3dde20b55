import FoundationEssentials

extension KeyedDecodingContainer {
    /// Replaces a default by the member's value, if the member is present.
    func override<Value: Decodable>(_ value: inout Value, _ key: Key) throws {
        if let given = try decodeIfPresent(Value.self, forKey: key) { value = given }
    }
}

extension ServerConfiguration {
    /// Reads a configuration file.
    ///
    /// - Throws: ``ConfigurationError`` with a sentence that names the member and the mistake.
    init(json: Data) throws {
        do {
            self = try JSONDecoder().decode(ServerConfiguration.self, from: json)
        } catch let error as DecodingError {
            throw ConfigurationError(error)
        }
        try validate()
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(clients: try container.decode([ClientConfiguration].self, forKey: .clients))
        try container.override(&project, .project)
        publicOrigin = try container.decodeIfPresent(String.self, forKey: .publicOrigin)
        try container.override(&trustedProxies, .trustedProxies)
        try container.override(&authentication, .authentication)
        try container.override(&identity, .identity)
        try container.override(&rateLimits, .rateLimits)
        try container.override(&connections, .connections)
        try container.override(&extensions, .extensions)
        try container.override(&idTokenSigningAlgorithm, .idTokenSigningAlgorithm)
    }

    private func validate() throws {
        guard !clients.isEmpty else { throw ConfigurationError("clients: at least one client is required") }
        guard Set(clients.map(\.id)).count == clients.count else {
            throw ConfigurationError("clients: two clients have the same client_id")
        }
        for client in clients { try client.validate() }
        if let publicOrigin {
            let url = URL(string: publicOrigin)
            guard url?.scheme == "https" || url?.scheme == "http", url?.host() != nil, url?.path() == "" else {
                throw ConfigurationError("public_origin: not an origin such as https://id.example.com")
            }
        }
        for proxy in trustedProxies where IPAddress(proxy) == nil {
            throw ConfigurationError("trusted_proxies: \(proxy) is not an IP address")
        }
        guard
            rateLimits.tokenPerAddress > 0, rateLimits.challengePerAddress > 0, rateLimits.biometricPerUser > 0,
            rateLimits.lockerPerAddress > 0, rateLimits.lockerPerUser > 0
        else {
            throw ConfigurationError("rate_limits: a limit must be at least 1")
        }
        guard connections.perAddress > 0, (1...1_000_000).contains(connections.total) else {
            throw ConfigurationError("connections: a limit must be at least 1, and the total at most 1000000")
        }
        guard identity.biometric.maximumDevices > 0 else {
            throw ConfigurationError("identity.biometric.maximum_devices: must be at least 1")
        }
        try extensions.locker.validate()
    }
}

extension ServerConfiguration.Identity {
    init(from decoder: any Decoder) throws {
        self.init()
        let container = try decoder.container(keyedBy: CodingKeys.self)
        try container.override(&biometric, .biometric)
    }
}

extension ServerConfiguration.Biometric {
    init(from decoder: any Decoder) throws {
        self.init()
        let container = try decoder.container(keyedBy: CodingKeys.self)
        try container.override(&listEnabled, .listEnabled)
        try container.override(&disabled, .disabled)
        try container.override(&maximumDevices, .maximumDevices)
    }
}

extension ServerConfiguration.RateLimits {
    init(from decoder: any Decoder) throws {
        self.init()
        let container = try decoder.container(keyedBy: CodingKeys.self)
        try container.override(&tokenPerAddress, .tokenPerAddress)
        try container.override(&challengePerAddress, .challengePerAddress)
        try container.override(&biometricPerUser, .biometricPerUser)
        try container.override(&lockerPerAddress, .lockerPerAddress)
        try container.override(&lockerPerUser, .lockerPerUser)
    }
}

extension ServerConfiguration.Connections {
    init(from decoder: any Decoder) throws {
        self.init()
        let container = try decoder.container(keyedBy: CodingKeys.self)
        try container.override(&perAddress, .perAddress)
        try container.override(&total, .total)
    }
}

extension ServerConfiguration.Extensions {
    init(from decoder: any Decoder) throws {
        self.init()
        let container = try decoder.container(keyedBy: CodingKeys.self)
        try container.override(&biometricRemoval, .biometricRemoval)
        try container.override(&biometricLoginHint, .biometricLoginHint)
        try container.override(&biometricAudience, .biometricAudience)
        try container.override(&locker, .locker)
    }
}

extension ServerConfiguration.Locker {
    init(from decoder: any Decoder) throws {
        self.init()
        let container = try decoder.container(keyedBy: CodingKeys.self)
        try container.override(&enabled, .enabled)
        try container.override(&levelShares, .levelShares)
        try container.override(&backgroundScopes, .backgroundScopes)
        try container.override(&maximumEnrolments, .maximumEnrolments)
    }

    fileprivate func validate() throws {
        guard !backgroundScopes.isEmpty, Set(backgroundScopes).isSubset(of: Scope.narrow) else {
            throw ConfigurationError(
                "extensions.locker.background_scopes: at least one of \(Scope.narrow.sorted().joined(separator: ", "))")
        }
        guard maximumEnrolments > 0 else {
            throw ConfigurationError("extensions.locker.maximum_enrolments: must be at least 1")
        }
    }
}
