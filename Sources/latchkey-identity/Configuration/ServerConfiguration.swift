import FoundationEssentials

/// What an operator decides: the JSON file behind `--config`. Every member may be left out but `clients`.
///
/// The names are those of an Authgear project's configuration where it has the thing (seed 003:
/// `identity.biometric.list_enabled`).
struct ServerConfiguration: Sendable, Codable {
    /// Key names (`kid`) are unique within a project.
    var project: String
    /// The origin under which clients reach the server, when a proxy stands before it: `https://id.example.com`.
    var publicOrigin: String?
    /// The IP addresses of the proxies that are believed when they name the client: the last entry of
    /// `X-Forwarded-For`, which such a proxy must append or set itself (nginx: `$proxy_add_x_forwarded_for`).
    ///
    /// None by default: the client is then the peer, and all users behind one proxy share the limits of one address.
    var trustedProxies: [String]
    var authentication: Authentication
    var identity: Identity
    var clients: [ClientConfiguration]
    var rateLimits: RateLimits
    var connections: Connections
    /// What deployed servers lack and the seeds describe. All on by default.
    var extensions: Extensions
    /// The algorithm that ID tokens are signed with: `ES256`, or `RS256` as on the deployed server.
    var idTokenSigningAlgorithm: IDTokenAlgorithm

    struct Authentication: Sendable, Codable {
        /// What a user may be known by. Without `biometric`, biometric requests answer `BiometricDisallowed`.
        var identities: [String] = ["login_id", "biometric"]

        var allowsBiometric: Bool { identities.contains("biometric") }
    }

    struct Identity: Sendable, Codable {
        var biometric: Biometric

        enum CodingKeys: String, CodingKey {
            case biometric
        }
    }

    struct Biometric: Sendable, Codable {
        /// Whether the settings page leads to the list of a user's devices.
        var listEnabled: Bool
        /// Whether the plan excludes biometric login.
        var disabled: Bool
        /// How many devices one user may have.
        var maximumDevices: Int

        enum CodingKeys: String, CodingKey {
            case listEnabled = "list_enabled"
            case disabled
            case maximumDevices = "maximum_devices"
        }
    }

    struct RateLimits: Sendable, Codable {
        /// Requests to the token endpoint, per address and minute.
        var tokenPerAddress: Int
        /// Challenges, per address and minute. Each lives for five minutes, so five times as many are kept at most.
        var challengePerAddress: Int
        /// Biometric requests, per user and minute.
        var biometricPerUser: Int
        /// Requests to the locker's endpoints, per address and minute.
        var lockerPerAddress: Int
        /// Locker requests that were proved, per user and minute.
        var lockerPerUser: Int

        enum CodingKeys: String, CodingKey {
            case tokenPerAddress = "token_per_address"
            case challengePerAddress = "challenge_per_address"
            case biometricPerUser = "biometric_per_user"
            case lockerPerAddress = "locker_per_address"
            case lockerPerUser = "locker_per_user"
        }
    }

    struct Connections: Sendable, Codable {
        /// How many connections one IPv4 address, or one IPv6 network of 64 bits, may have open. Does not hold for
        /// ``trustedProxies``: all connections of a proxy have its address. Raise it for a proxy that is not listed there.
        var perAddress: Int
        /// How many connections may be open. A new one above that replaces the one that has been idle for longest.
        var total: Int

        enum CodingKeys: String, CodingKey {
            case perAddress = "per_address"
            case total
        }
    }

    struct Extensions: Sendable, Codable {
        /// Whether `/api/identity/biometric/remove` is there and advertised.
        var biometricRemoval: Bool
        /// Whether a biometric `login_hint` is understood and advertised.
        var biometricLoginHint: Bool
        /// Whether biometric requests must name this server and their client, which is advertised.
        var biometricAudience: Bool
        var locker: Locker

        enum CodingKeys: String, CodingKey {
            case locker
            case biometricRemoval = "biometric_removal"
            case biometricLoginHint = "biometric_login_hint"
            case biometricAudience = "biometric_audience"
        }
    }

    /// The locker protocol (`LockerProtocol.md`).
    struct Locker: Sendable, Codable {
        /// Whether its endpoints and grants are there and advertised.
        var enabled: Bool
        /// Whether the server keeps and releases level shares. Those of earlier enrolments wait while it does not.
        var levelShares: Bool
        /// The scopes that a background token may have at most, and has when none are asked for.
        var backgroundScopes: [String]
        /// How many devices one user may have enrolled.
        var maximumEnrolments: Int

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
        project = "latchkey"
        trustedProxies = []
        authentication = Authentication()
        identity = Identity(biometric: Biometric())
        self.clients = clients
        rateLimits = RateLimits()
        connections = Connections()
        extensions = Extensions()
        idTokenSigningAlgorithm = .es256
    }

    func client(id: String) -> ClientConfiguration? {
        clients.first { $0.id == id }
    }
}
