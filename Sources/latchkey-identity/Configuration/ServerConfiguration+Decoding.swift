import FoundationEssentials

extension ServerConfiguration {
    /// Reads a configuration file.
    ///
    /// - Throws: ``ConfigurationError`` with one sentence that names the member and the mistake.
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
        func override<Value: Decodable>(_ value: inout Value, _ key: CodingKeys) throws {
            if let given = try container.decodeIfPresent(Value.self, forKey: key) { value = given }
        }
        try override(&project, .project)
        publicOrigin = try container.decodeIfPresent(String.self, forKey: .publicOrigin)
        try override(&trustedProxies, .trustedProxies)
        try override(&authentication, .authentication)
        try override(&identity, .identity)
        try override(&rateLimits, .rateLimits)
        try override(&connections, .connections)
        try override(&extensions, .extensions)
        try override(&idTokenSigningAlgorithm, .idTokenSigningAlgorithm)
    }

    private func validate() throws {
        guard !clients.isEmpty else { throw ConfigurationError("clients: at least one client is needed") }
        guard Set(clients.map(\.id)).count == clients.count else {
            throw ConfigurationError("clients: two have the same client_id")
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
        let container = try decoder.container(keyedBy: CodingKeys.self)
        biometric =
            try container.decodeIfPresent(ServerConfiguration.Biometric.self, forKey: .biometric)
            ?? ServerConfiguration.Biometric()
    }
}

extension ServerConfiguration.Biometric {
    init() {
        listEnabled = false
        disabled = false
        maximumDevices = 100
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        listEnabled = try container.decodeIfPresent(Bool.self, forKey: .listEnabled) ?? false
        disabled = try container.decodeIfPresent(Bool.self, forKey: .disabled) ?? false
        maximumDevices = try container.decodeIfPresent(Int.self, forKey: .maximumDevices) ?? 100
    }
}

extension ServerConfiguration.RateLimits {
    init() {
        tokenPerAddress = 120
        challengePerAddress = 120
        biometricPerUser = 60
        lockerPerAddress = 120
        lockerPerUser = 60
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        tokenPerAddress = try container.decodeIfPresent(Int.self, forKey: .tokenPerAddress) ?? 120
        challengePerAddress = try container.decodeIfPresent(Int.self, forKey: .challengePerAddress) ?? 120
        biometricPerUser = try container.decodeIfPresent(Int.self, forKey: .biometricPerUser) ?? 60
        lockerPerAddress = try container.decodeIfPresent(Int.self, forKey: .lockerPerAddress) ?? 120
        lockerPerUser = try container.decodeIfPresent(Int.self, forKey: .lockerPerUser) ?? 60
    }
}

extension ServerConfiguration.Connections {
    init() {
        perAddress = 256
        total = 768
    }

    init(from decoder: any Decoder) throws {
        self.init()
        let container = try decoder.container(keyedBy: CodingKeys.self)
        perAddress = try container.decodeIfPresent(Int.self, forKey: .perAddress) ?? perAddress
        total = try container.decodeIfPresent(Int.self, forKey: .total) ?? total
    }
}

extension ServerConfiguration.Extensions {
    init() {
        biometricRemoval = true
        biometricLoginHint = true
        biometricAudience = true
        locker = ServerConfiguration.Locker()
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        biometricRemoval = try container.decodeIfPresent(Bool.self, forKey: .biometricRemoval) ?? true
        biometricLoginHint = try container.decodeIfPresent(Bool.self, forKey: .biometricLoginHint) ?? true
        biometricAudience = try container.decodeIfPresent(Bool.self, forKey: .biometricAudience) ?? true
        locker =
            try container.decodeIfPresent(ServerConfiguration.Locker.self, forKey: .locker)
            ?? ServerConfiguration.Locker()
    }
}

extension ServerConfiguration.Locker {
    init() {
        enabled = true
        levelShares = true
        backgroundScopes = [Scope.openID, Scope.profile]
        maximumEnrolments = 100
    }

    init(from decoder: any Decoder) throws {
        self.init()
        let container = try decoder.container(keyedBy: CodingKeys.self)
        enabled = try container.decodeIfPresent(Bool.self, forKey: .enabled) ?? enabled
        levelShares = try container.decodeIfPresent(Bool.self, forKey: .levelShares) ?? levelShares
        backgroundScopes = try container.decodeIfPresent([String].self, forKey: .backgroundScopes) ?? backgroundScopes
        maximumEnrolments = try container.decodeIfPresent(Int.self, forKey: .maximumEnrolments) ?? maximumEnrolments
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
