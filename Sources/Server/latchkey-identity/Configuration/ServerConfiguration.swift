import FoundationEssentials
import Latchkey
import LatchkeyJOSE

/// The JSON file of `--config`. Every member except `clients` is optional.
///
/// The file's names are the properties' in snake case. Settings that also exist in Authgear have
/// Authgear's names, for example `identity.biometric.list_enabled`.
struct ServerConfiguration: Sendable, Codable {
    /// Key names (`kid`) are unique within a project.
    var project = "latchkey"
    /// The origin under which clients reach the server through a proxy: `https://id.example.com`.
    var publicOrigin: String?
    /// The IP addresses of the proxies that report the client's address in the last entry of
    /// `X-Forwarded-For`. Such a proxy must append or set that entry itself (nginx:
    /// `$proxy_add_x_forwarded_for`).
    ///
    /// Empty by default: then the client's address is the peer's, and all users behind one proxy
    /// share its limits.
    var trustedProxies: [String] = []
    var authentication = Authentication()
    var identity = Identity()
    var clients: [ClientConfiguration]
    var rateLimits = RateLimits()
    /// Features that deployed Authgear servers lack. All are on by default.
    var extensions = Extensions()
    /// The algorithm that signs ID tokens: `ES256`, or `RS256` as on deployed Authgear servers.
    var idTokenSigningAlg = IDTokenAlgorithm.es256
    /// Whether each proof of a client's key needs a nonce of this server (RFC 9449 section 8). It
    /// costs the client another request and signature when it has no recent nonce.
    var dpopNonceRequired = false
    /// Whether clients can or must prove that keys are in hardware. Absent by default: then the
    /// server neither announces nor accepts attestations.
    var attestation: AttestationConfiguration?

    struct Authentication: Sendable, Codable {
        /// The kinds of identity that a user may have. Without `biometric`, biometric requests fail
        /// with `BiometricDisallowed`.
        var identities: [String] = ["login_id", "biometric"]

        var allowsBiometric: Bool { identities.contains("biometric") }
    }

    struct Identity: Sendable, Codable {
        var biometric = Biometric()
    }

    struct Biometric: Sendable, Codable {
        /// Whether the settings page links to the list of the user's devices.
        var listEnabled = false
        /// Whether biometric login is off.
        var disabled = false
        /// The maximum number of devices of one user.
        var maximumDevices = 100
    }

    /// The limits of this process.
    struct RateLimits: Sendable, Codable {
        /// Requests to the token, locker and attestation endpoints, per address and minute.
        var tokenPerAddress = 120
        /// Challenges, per address and minute. A challenge expires after five minutes, so at most
        /// five times as many are stored per address.
        var challengePerAddress = 120
    }

    struct Extensions: Sendable, Codable {
        /// Whether the server has and advertises `/api/identity/biometric/remove`.
        var biometricRemoval = true
        /// Whether the server accepts and advertises a `login_hint` of type `user_id`.
        var biometricLoginHint = true
        /// Whether biometric requests must name this server and their client. The server advertises
        /// it.
        var biometricAudience = true
        var locker = Locker()
    }

    /// The locker protocol (`LockerProtocol.md`).
    struct Locker: Sendable, Codable {
        /// Whether the server has and advertises the locker's endpoints and grants.
        var enabled = true
        /// Whether the server stores and releases level shares. While it is off, stored shares are
        /// kept but not released.
        var levelShares = true
        /// The scopes that a background token can have. They are also the default.
        var backgroundScopes = [Scope.openID, Scope.profile]
        /// The maximum number of enrolled devices of one user.
        var maximumEnrolments = 100
    }

    enum IDTokenAlgorithm: String, Sendable, Codable, CaseIterable {
        case es256 = "ES256"
        case rs256 = "RS256"
    }

    init(clients: [ClientConfiguration]) {
        self.clients = clients
    }

    func client(id: String) -> ClientConfiguration? {
        clients.first { $0.id == id }
    }

    /// Whether the server announces that it binds tokens to keys.
    var bindsTokens: Bool { clients.contains { $0.dpop.isRequired } }

    /// Whether a device key can log its user in.
    var allowsBiometricLogin: Bool {
        !identity.biometric.disabled && authentication.allowsBiometric
    }
}

extension ServerConfiguration {
    private static let example =
        #"{"clients": [{"client_id": "app", "redirect_uris": ["http://127.0.0.1/callback"]}]}"#

    /// Reads a configuration file. Members that are absent or null keep their defaults; unknown
    /// members are refused.
    ///
    /// - Throws: ``ConfigurationError`` with a sentence that names the member and the mistake.
    init(json: Data) throws {
        do {
            let given = try ReceivedJSON.decode(JSONValue.self, from: json)
            try given.validateNames(.object(Self.members(Self.complete)))
            var defaults = try Self.members(ServerConfiguration(clients: []))
            defaults["clients"] = nil
            if given["attestation"]?.object != nil {
                defaults["attestation"] = .object(try Self.members(AttestationConfiguration()))
            }
            var merged = JSONValue.object(defaults).replacing(with: given)
            if case .object(var members) = merged, case .array(let clients) = members["clients"] {
                var defaults = try Self.members(ClientConfiguration(id: "", redirectURIs: []))
                defaults["client_id"] = nil
                members["clients"] = .array(
                    clients.map { JSONValue.object(defaults).replacing(with: $0) })
                merged = .object(members)
            }
            let decoder = JSONDecoder()
            decoder.keyDecodingStrategy = .convertFromSnakeCase
            self = try decoder.decode(ServerConfiguration.self, from: JSONEncoder().encode(merged))
        } catch let error as DecodingError {
            throw ConfigurationError(error, example: Self.example)
        } catch ReceivedJSON.Flaw.repeatedName(let name) {
            throw ConfigurationError("\(name): two members have this name")
        } catch is ReceivedJSON.Flaw {
            throw ConfigurationError("the file is not valid JSON")
        }
        try validate()
    }

    /// A configuration with a value for each member, also for those without a default.
    private static var complete: ServerConfiguration {
        var client = ClientConfiguration(id: "", name: "")
        client.attestationRequire = ""
        var configuration = ServerConfiguration(clients: [client])
        configuration.publicOrigin = ""
        configuration.attestation = AttestationConfiguration()
        return configuration
    }

    private static func members(_ defaults: some Encodable) throws -> [String: JSONValue] {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        return try JSONDecoder().decode([String: JSONValue].self, from: encoder.encode(defaults))
    }

    private func validate() throws {
        guard !clients.isEmpty else {
            throw ConfigurationError(
                "clients: at least one client is required", "Register one: \(Self.example)")
        }
        guard Set(clients.map(\.id)).count == clients.count else {
            throw ConfigurationError("clients: two clients have the same client_id")
        }
        for client in clients { try client.validate() }
        if let publicOrigin {
            let url = URL(string: publicOrigin)
            guard url?.scheme == "https" || url?.scheme == "http", url?.host() != nil,
                url?.path() == ""
            else {
                throw ConfigurationError(
                    "public_origin: not an origin such as https://id.example.com")
            }
        }
        for proxy in trustedProxies where IPAddress(proxy) == nil {
            throw ConfigurationError("trusted_proxies: \(proxy) is not an IP address")
        }
        let locker = extensions.locker
        for (name, limit) in [
            ("rate_limits.token_per_address", rateLimits.tokenPerAddress),
            ("rate_limits.challenge_per_address", rateLimits.challengePerAddress),
            ("identity.biometric.maximum_devices", identity.biometric.maximumDevices),
            ("extensions.locker.maximum_enrolments", locker.maximumEnrolments),
        ] where limit < 1 {
            throw ConfigurationError("\(name): must be at least 1")
        }
        if let attestation {
            try attestation.validate(clients)
        } else if let client = clients.first(where: { $0.attestationRequire != nil }) {
            throw ConfigurationError(
                "client \(client.id): attestation_require needs the member attestation",
                "Add attestation with trust anchors, or remove attestation_require.")
        }
        guard !locker.backgroundScopes.isEmpty,
            Set(locker.backgroundScopes).isSubset(of: Scope.narrow)
        else {
            let scopes = Scope.narrow.sorted().joined(separator: ", ")
            throw ConfigurationError(
                "extensions.locker.background_scopes: at least one of \(scopes)")
        }
    }
}

extension JSONValue {
    /// Refuses members that are not settings, at any depth: a wrong name would leave a requirement
    /// off.
    ///
    /// - Parameters:
    ///   - known: A value with all members. Its arrays contain one element, which has all members
    ///     of each element.
    ///   - path: The names that lead to this value.
    /// - Throws: ``ConfigurationError`` with the path of the first unknown member.
    fileprivate func validateNames(_ known: JSONValue, at path: [String] = []) throws {
        switch (self, known) {
        case (.object(let members), .object(let settings)):
            for (name, value) in members.sorted(by: { $0.key < $1.key }) {
                guard let setting = settings[name] else {
                    throw ConfigurationError(
                        "\((path + [name]).joined(separator: ".")): unknown member",
                        "Use one of: \(settings.keys.sorted().joined(separator: ", ")).")
                }
                try value.validateNames(setting, at: path + [name])
            }
        case (.array(let elements), .array(let settings)):
            guard let setting = settings.first else { return }
            for (index, element) in elements.enumerated() {
                try element.validateNames(setting, at: path + [String(index)])
            }
        default: return
        }
    }

    /// This value with the members of `other`, in objects at any depth, except those that are null.
    fileprivate func replacing(with other: JSONValue) -> JSONValue {
        guard case .object(let old) = self, case .object(let new) = other else { return other }
        return .object(old.merging(new.filter { $0.value != .null }) { $0.replacing(with: $1) })
    }
}

/// An unusable configuration, database or address.
struct ConfigurationError: Error, CustomStringConvertible {
    /// The cause, and the next step in one imperative sentence.
    let description: String

    init(_ cause: String, _ recovery: String = "Correct the configuration.") {
        description = "\(cause). \(recovery)"
    }

    /// Uses a text that contains the cause and the next step.
    init(sentences: String) { description = sentences }

    init(_ error: DecodingError, example: String) {
        func path(_ context: DecodingError.Context, _ last: (any CodingKey)? = nil) -> String {
            (context.codingPath + (last.map { [$0] } ?? []))
                .map {
                    $0.intValue.map(String.init)
                        ?? $0.stringValue.replacing(/[A-Z]/) { "_\($0.output.lowercased())" }
                }
                .joined(separator: ".")
        }
        switch error {
        case .keyNotFound(let key, let context) where path(context, key) == "clients":
            self.init("clients: missing", "Register a client: \(example)")
        case .keyNotFound(let key, let context): self.init("\(path(context, key)): missing")
        case .typeMismatch(_, let context) where context.codingPath.isEmpty:
            self.init("the file is not a JSON object", "Write at least: \(example)")
        case .typeMismatch(_, let context): self.init("\(path(context)): of the wrong type")
        case .valueNotFound(_, let context): self.init("\(path(context)): null")
        case .dataCorrupted(let context) where context.codingPath.isEmpty:
            self.init("the file is not valid JSON")
        case .dataCorrupted(let context): self.init("\(path(context)): \(context.debugDescription)")
        @unknown default: self.init("\(error)")
        }
    }
}
