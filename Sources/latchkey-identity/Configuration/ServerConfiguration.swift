import FoundationEssentials

/// The JSON file of `--config`. Every member except `clients` is optional.
///
/// Settings that an Authgear project also has use its names, for example `identity.biometric.list_enabled`.
struct ServerConfiguration: Sendable, Codable {
    /// Key names (`kid`) are unique within a project.
    var project = "latchkey"
    /// The origin under which clients reach the server through a proxy: `https://id.example.com`.
    var publicOrigin: String?
    /// The IP addresses of the proxies that report the client's address in the last entry of `X-Forwarded-For`. Such a
    /// proxy must append or set that entry itself (nginx: `$proxy_add_x_forwarded_for`).
    ///
    /// Empty by default: then the client's address is the peer's, and all users behind one proxy share its limits.
    var trustedProxies: [String] = []
    var authentication = Authentication()
    var identity = Identity()
    var clients: [ClientConfiguration]
    var rateLimits = RateLimits()
    var connections = Connections()
    /// Features that deployed Authgear servers lack. All are on by default.
    var extensions = Extensions()
    /// The algorithm that signs ID tokens: `ES256`, or `RS256` as on deployed Authgear servers.
    var idTokenSigningAlgorithm = IDTokenAlgorithm.es256

    struct Authentication: Sendable, Codable {
        /// The kinds of identity that a user may have. Without `biometric`, biometric requests fail with
        /// `BiometricDisallowed`.
        var identities: [String] = ["login_id", "biometric"]

        var allowsBiometric: Bool { identities.contains("biometric") }
    }

    struct Identity: Sendable, Codable {
        var biometric = Biometric()

        enum CodingKeys: CodingKey {
            case biometric
        }
    }

    struct Biometric: Sendable, Codable {
        /// Whether the settings page links to the list of the user's devices.
        var listEnabled = false
        /// Whether biometric login is off.
        var disabled = false
        /// The maximum number of devices of one user.
        var maximumDevices = 100

        enum CodingKeys: String, CodingKey {
            case listEnabled = "list_enabled"
            case disabled
            case maximumDevices = "maximum_devices"
        }
    }

    struct RateLimits: Sendable, Codable {
        /// Requests to the token endpoint, per address and minute.
        var tokenPerAddress = 120
        /// Challenges, per address and minute. A challenge expires after five minutes, so at most five times as many
        /// are stored per address.
        var challengePerAddress = 120
        /// Biometric requests, per user and minute.
        var biometricPerUser = 60
        /// Requests to the locker's endpoints, per address and minute.
        var lockerPerAddress = 120
        /// Locker requests with a valid signature, per user and minute.
        var lockerPerUser = 60

        enum CodingKeys: String, CodingKey {
            case tokenPerAddress = "token_per_address"
            case challengePerAddress = "challenge_per_address"
            case biometricPerUser = "biometric_per_user"
            case lockerPerAddress = "locker_per_address"
            case lockerPerUser = "locker_per_user"
        }
    }

    struct Connections: Sendable, Codable {
        /// The maximum number of open connections of one IPv4 address, or of one IPv6 network of 64 bits. Does not
        /// apply to ``trustedProxies``. Raise it for a proxy that is not listed there.
        var perAddress = 256
        /// The maximum number of open connections. Above it, a new connection replaces the longest idle one.
        var total = 768

        enum CodingKeys: String, CodingKey {
            case perAddress = "per_address"
            case total
        }
    }

    struct Extensions: Sendable, Codable {
        /// Whether the server has and advertises `/api/identity/biometric/remove`.
        var biometricRemoval = true
        /// Whether the server accepts and advertises a `login_hint` of type `user_id`.
        var biometricLoginHint = true
        /// Whether biometric requests must name this server and their client. The server advertises it.
        var biometricAudience = true
        var locker = Locker()

        enum CodingKeys: String, CodingKey {
            case locker
            case biometricRemoval = "biometric_removal"
            case biometricLoginHint = "biometric_login_hint"
            case biometricAudience = "biometric_audience"
        }
    }

    /// The locker protocol (`LockerProtocol.md`).
    struct Locker: Sendable, Codable {
        /// Whether the server has and advertises the locker's endpoints and grants.
        var enabled = true
        /// Whether the server stores and releases level shares. While it is off, stored shares are kept but not
        /// released.
        var levelShares = true
        /// The scopes that a background token can have. They are also the default.
        var backgroundScopes = [Scope.openID, Scope.profile]
        /// The maximum number of enrolled devices of one user.
        var maximumEnrolments = 100

        enum CodingKeys: String, CodingKey {
            case enabled
            case levelShares = "level_shares"
            case backgroundScopes = "background_scopes"
            case maximumEnrolments = "maximum_enrolments"
        }
    }

    enum IDTokenAlgorithm: String, Sendable, Codable {
        case es256 = "ES256"
        case rs256 = "RS256"
    }

    enum CodingKeys: String, CodingKey {
        case project, authentication, identity, clients, connections, extensions
        case publicOrigin = "public_origin"
        case trustedProxies = "trusted_proxies"
        case rateLimits = "rate_limits"
        case idTokenSigningAlgorithm = "id_token_signing_alg"
    }

    init(clients: [ClientConfiguration]) {
        self.clients = clients
    }

    func client(id: String) -> ClientConfiguration? {
        clients.first { $0.id == id }
    }
}

/// An unusable configuration.
struct ConfigurationError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }

    init(_ error: DecodingError) {
        func path(_ context: DecodingError.Context, _ last: (any CodingKey)? = nil) -> String {
            (context.codingPath + (last.map { [$0] } ?? [])).map { $0.intValue.map(String.init) ?? $0.stringValue }
                .joined(separator: ".")
        }
        switch error {
        case .keyNotFound(let key, let context): description = "\(path(context, key)): missing"
        case .typeMismatch(_, let context): description = "\(path(context)): of the wrong type"
        case .valueNotFound(_, let context): description = "\(path(context)): null"
        case .dataCorrupted(let context) where context.codingPath.isEmpty: description = "the file is not valid JSON"
        case .dataCorrupted(let context): description = "\(path(context)): \(context.debugDescription)"
        @unknown default: description = "\(error)"
        }
    }
}
