import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import NIOCore

/// The JSON file of `--config`. Every member except `clients` is optional.
///
/// The file's names are the properties' in snake case. Settings that also exist in Authgear have
/// Authgear's names, for example `identity.biometric.list_enabled`.
struct ServerConfiguration: Sendable, Codable {
    /// The origin under which clients reach the server through a proxy: `https://id.example.com`.
    var publicOrigin: String?
    var identity = Identity()
    var clients: [ClientConfiguration]
    /// Features that deployed Authgear servers lack.
    var extensions = Extensions()
    /// Whether each proof of a client's key needs a nonce of this server (RFC 9449 section 8). It
    /// costs the client another request and signature when it has no recent nonce.
    var dpopNonceRequired = false
    /// Whether clients can or must prove that keys are in hardware. Absent by default: then the
    /// server neither announces nor accepts attestations.
    var attestation: AttestationConfiguration?

    struct Identity: Sendable, Codable {
        var biometric = Biometric()
    }

    struct Biometric: Sendable, Codable {
        /// Whether the settings page links to the list of the user's devices.
        var listEnabled = false
        /// Whether biometric login is off.
        var disabled = false
    }

    struct Extensions: Sendable, Codable {
        var locker = Locker()
    }

    /// The locker protocol (`LockerProtocol.md`).
    struct Locker: Sendable, Codable {
        /// Whether new enrolments get level shares. The server keeps and releases those that it
        /// stored before.
        var levelShares = true
    }

    init(clients: [ClientConfiguration]) {
        self.clients = clients
    }

    func client(id: String) -> ClientConfiguration? {
        clients.first { $0.id == id }
    }

    /// Whether the server announces that it binds tokens to keys.
    var bindsTokens: Bool { clients.contains { $0.dpop.isRequired } }
}

extension ServerConfiguration {
    /// The address on which a server listens.
    struct Listener: Sendable {
        let host: String
        let port: Int

        var isLoopback: Bool { Self.isLoopback(host) }

        static func isLoopback(_ host: String) -> Bool {
            ["localhost", "::1", "[::1]"].contains(host)
                || host.hasPrefix("127.")
                    && (try? SocketAddress(ipAddress: host, port: 0)) != nil
        }
    }

    private static let example =
        #"{"clients": [{"client_id": "app", "redirect_uris": ["http://127.0.0.1/callback"]}]}"#

    /// The permitted values of the members that are not free text, without the indices of lists.
    private static let choices = [
        "attestation.require": AttestationRequirement.Level.allCases.map(\.rawValue),
        "clients.attestation_require": AttestationRequirement.Level.allCases.map(\.rawValue),
        "clients.dpop": TokenBinding.allCases.map(\.rawValue),
    ]

    /// Reads a configuration file. Members that are absent or null keep their defaults; unknown
    /// members are refused.
    ///
    /// - Parameter listener: The address on which the server will listen; nil if it is not known.
    /// - Throws: ``ConfigurationError`` with all mistakes, each with its place in the file.
    init(json: Data, listener: Listener? = nil) throws {
        let given: JSONValue
        do {
            given = try ReceivedJSON.decode(JSONValue.self, from: json)
        } catch ReceivedJSON.Flaw.repeatedName(let name) {
            throw ConfigurationError("\(name): two members have this name")
        } catch {
            throw ConfigurationError(
                "the file is not valid JSON", "Check its syntax, for example with jq.")
        }
        var check = ConfigurationCheck(choices: Self.choices)
        guard given.object != nil else {
            throw ConfigurationError(
                "the file is not a JSON object, but \(given.kind)",
                "Write at least: \(Self.example)")
        }
        let settings = check.settings(given, like: .object(try Self.members(Self.complete)))
        var defaults = try Self.members(ServerConfiguration(clients: []))
        if settings["attestation"] != nil {
            defaults["attestation"] = .object(try Self.members(AttestationConfiguration()))
        }
        var members = JSONValue.object(defaults).replacing(with: settings).object ?? [:]
        let client = JSONValue.object(
            try Self.members(ClientConfiguration(id: "", redirectURIs: [])))
        members["clients"] = .array(
            members["clients"]?.array?.map { client.replacing(with: $0) } ?? [])
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        self = try decoder.decode(
            ServerConfiguration.self, from: JSONEncoder().encode(JSONValue.object(members)))
        validate(&check, listener)
        try check.end()
    }

    /// A configuration with a value for each member, also for those without a default, and for the
    /// elements of each list.
    private static var complete: ServerConfiguration {
        var client = ClientConfiguration(
            id: "", name: "", redirectURIs: [""])
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

    private func validate(_ check: inout ConfigurationCheck, _ listener: Listener?) {
        check.require(
            !clients.isEmpty, "clients", "at least one client is required",
            "Register one: \(Self.example)")
        for (index, client) in clients.enumerated() {
            client.validate("clients.\(index)", &check)
            check.require(
                !clients[..<index].contains { $0.id == client.id }, "clients.\(index).client_id",
                "another client has this client_id")
            check.require(
                client.attestationRequire == nil || attestation != nil,
                "clients.\(index).attestation_require", "there is no member attestation",
                "Add attestation with trust anchors, or remove attestation_require.")
        }
        validateOrigin(&check, listener)
        attestation?.validate(&check)
    }

    private func validateOrigin(_ check: inout ConfigurationCheck, _ listener: Listener?) {
        guard let publicOrigin else {
            return check.require(
                listener?.isLoopback ?? true, "public_origin",
                "clients cannot name this server by the address \(listener?.host ?? "")",
                "Set public_origin in the configuration, or listen on loopback.")
        }
        let url = URLComponents(string: publicOrigin)
        let (scheme, host) = (url?.scheme ?? "", url?.host ?? "")
        let isLocal = Listener.isLoopback(host)
        let origin = "\(scheme)://\(host)" + (url?.port.map { ":\($0)" } ?? "")
        check.require(
            !host.isEmpty && origin == publicOrigin && origin == origin.lowercased()
                && (scheme == "https" || scheme == "http" && isLocal),
            "public_origin", "\(String(quoted: publicOrigin, limit: 200)) is not an origin",
            "Write it as https://id.example.com, in lower case and without a path. Only a loopback address can have http."
        )
        guard let listener, listener.isLoopback, isLocal else { return }
        // This server has no TLS.
        let isOwnPort = (url?.port ?? (scheme == "http" ? 80 : 443)) == listener.port
        check.require(
            isOwnPort == (scheme == "http"), "public_origin",
            "the server listens at \(Origin.text(host: listener.host, port: listener.port)), not there",
            "Correct it or --port.")
    }
}
