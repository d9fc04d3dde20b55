import Crypto
import Foundation

/// Registered devices. Each belongs to a different user and has one session. All have the same key.
struct FleetDevices: Sendable {
    enum Dialect {
        case sqlite, postgreSQL
    }

    let count: Int
    let key: P256.Signing.PrivateKey

    /// The tables with rows for each device.
    static let tables = ["user", "latchkey_device", "offline_grant", "refresh_token"]

    /// Statements that insert the rows.
    func insertion(_ dialect: Dialect) -> [String] {
        let now = Int(Date().timeIntervalSince1970)
        let point = key.publicKey.rawRepresentation
        let (x, y) = (Self.base64URL(point.prefix(32)), Self.base64URL(point.suffix(32)))
        // The lengths of a salt and a hash. No password matches.
        let password =
            "$scrypt$ln=15,r=8,p=3$\(String(repeating: "A", count: 22))$\(String(repeating: "A", count: 43))"
        // Sessions expire in another order than that of their rows.
        let shift = "n % 10007 * 7919 % 86400"
        let names = ["kid", "device", "owner", "session"].map { "\(Self.uuid(dialect)) AS \($0)" }
        return [
            "CREATE TEMP TABLE fleet AS SELECT n, \(names.joined(separator: ", ")), \(Self.digest(dialect)) AS digest "
                + "FROM \(numbers(dialect))",
            """
            INSERT INTO "user" (id, username, password, is_anonymous, is_disabled, created_at)
            SELECT owner, 'user' || n, '\(password)', FALSE, FALSE, \(now) FROM fleet
            """,
            """
            INSERT INTO latchkey_device (project, kid, id, user_id, jwk, device_info, created_at)
            SELECT 'latchkey', kid, device, owner,
                '{"alg":"ES256","crv":"P-256","kid":"' || kid || '","kty":"EC","x":"\(x)","y":"\(y)"}',
                '{"ios":{"uname":{"machine":"ThinkPad X1","nodename":"laptop-' || n || '"}}}', \(now) FROM fleet
            """,
            """
            INSERT INTO offline_grant (
                id, client_id, user_id, device_id, scope, amr, auth_time, expires_at, idle_expires_at)
            SELECT session, '\(FleetServers.clientID)', owner, device,
                'openid offline_access https://authgear.com/scopes/full-access', 'x_biometric', \(now),
                \(now + 364 * 86_400) + \(shift), \(now + 30 * 86_400) + \(shift) FROM fleet
            """,
            "INSERT INTO refresh_token (digest, grant_id, is_used) SELECT digest, session, FALSE FROM fleet",
        ]
    }

    /// The query for the key IDs of random devices.
    static func sample(_ count: Int) -> String {
        "SELECT kid FROM latchkey_device ORDER BY random() LIMIT \(count)"
    }

    /// A signed request to log in.
    func request(kid: String, challenge: String, issuer: String) throws -> String {
        let now = Int(Date().timeIntervalSince1970)
        let header = #"{"alg":"ES256","kid":"\#(kid)","typ":"vnd.authgear.biometric-request"}"#
        let payload = """
            {"action":"authenticate","aud":"\(issuer)","challenge":"\(challenge)","client_id":"\(FleetServers.clientID)",\
            "device_info":{"ios":{"uname":{"machine":"ThinkPad X1"}}},"exp":\(now + 60),"iat":\(now)}
            """
        let input = "\(Self.base64URL(Data(header.utf8))).\(Self.base64URL(Data(payload.utf8)))"
        return
            "\(input).\(Self.base64URL(try key.signature(for: Data(input.utf8)).rawRepresentation))"
    }

    private func numbers(_ dialect: Dialect) -> String {
        switch dialect {
        case .sqlite:
            """
            (WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < \(count))
            SELECT n FROM numbers)
            """
        case .postgreSQL: "generate_series(1, \(count)) AS n"
        }
    }

    /// 36 random characters in the form of a UUID.
    private static func uuid(_ dialect: Dialect) -> String {
        switch dialect {
        case .sqlite:
            "lower(\([4, 2, 2, 2, 6].map { "hex(randomblob(\($0)))" }.joined(separator: " || '-' || ")))"
        case .postgreSQL: "gen_random_uuid()::text"
        }
    }

    private static func digest(_ dialect: Dialect) -> String {
        switch dialect {
        case .sqlite: "randomblob(32)"
        case .postgreSQL: "sha256(convert_to(n::text, 'UTF8'))"
        }
    }

    private static func base64URL(_ bytes: Data) -> String {
        bytes.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing(
            "=", with: "")
    }
}
