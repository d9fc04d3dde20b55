import Crypto
import Foundation

/// Registered devices. Each belongs to a different user and has one session. All have the same key.
struct ServerDevices: Sendable {
    static let clientID = "app"

    let count: Int
    let key: P256.Signing.PrivateKey

    /// Creates a database with the server's tables and the rows.
    ///
    /// - Returns: The key IDs of random devices.
    func create(in file: String, choosing sample: Int) throws -> [String] {
        try Program.built("latchkey-identity").run(["migrate", "--database", file])
        let sqlite = Program(name: "sqlite3")
        try sqlite.run(
            [file, ".dbconfig enable_trigger off", "PRAGMA cache_size = -1000000"] + insertion
                + ["ANALYZE", "PRAGMA wal_checkpoint(TRUNCATE)"])
        let query = "SELECT kid FROM latchkey_device ORDER BY random() LIMIT \(sample)"
        let kids = String(decoding: try sqlite.run([file, query]), as: UTF8.self)
            .split(separator: "\n").map(String.init)
        guard !kids.isEmpty else { throw Failure(reason: "the database has no devices") }
        return kids
    }

    /// Statements that insert the rows.
    private var insertion: [String] {
        let now = Int(Date().timeIntervalSince1970)
        let point = key.publicKey.rawRepresentation
        let (x, y) = (Self.base64URL(point.prefix(32)), Self.base64URL(point.suffix(32)))
        // The lengths of a salt and a hash. No password matches.
        let password =
            "$scrypt$ln=15,r=8,p=3$\(String(repeating: "A", count: 22))$\(String(repeating: "A", count: 43))"
        // Sessions expire in another order than that of their rows.
        let shift = "n % 10007 * 7919 % 86400"
        let names = ["kid", "device", "owner", "session"].map { "\(Self.uuid) AS \($0)" }
        return [
            "CREATE TEMP TABLE fleet AS SELECT n, \(names.joined(separator: ", ")), randomblob(32) AS digest "
                + "FROM \(numbers)",
            """
            INSERT INTO "user" (id, username, name_key, password, is_anonymous, created_at)
            SELECT owner, 'user' || n, 'user' || n, '\(password)', FALSE, \(now) FROM fleet
            """,
            """
            INSERT INTO latchkey_device (project, kid, id, user_id, jwk, device_info, created_at)
            SELECT 'latchkey', kid, device, owner,
                '{"alg":"ES256","crv":"P-256","kid":"' || kid || '","kty":"EC","x":"\(x)","y":"\(y)"}',
                '{"ios":{"uname":{"machine":"ThinkPad X1","nodename":"laptop-' || n || '"}}}', \(now) FROM fleet
            """,
            """
            INSERT INTO offline_grant (
                id, client_id, user_id, device_id, scope, amr, auth_time, expires_at, idle_expires_at,
                refresh_family, refresh_digest)
            SELECT session, '\(Self.clientID)', owner, device,
                'openid offline_access https://authgear.com/scopes/full-access', 'x_biometric', \(now),
                \(now + 364 * 86_400) + \(shift), \(now + 30 * 86_400) + \(shift),
                randomblob(16), digest FROM fleet
            """,
        ]
    }

    /// A signed request to log in.
    func request(kid: String, challenge: String, issuer: String) throws -> String {
        let now = Int(Date().timeIntervalSince1970)
        let header = #"{"alg":"ES256","kid":"\#(kid)","typ":"vnd.authgear.biometric-request"}"#
        let payload = """
            {"action":"authenticate","aud":"\(issuer)","challenge":"\(challenge)","client_id":"\(Self.clientID)",\
            "device_info":{"ios":{"uname":{"machine":"ThinkPad X1"}}},"exp":\(now + 60),"iat":\(now)}
            """
        let input = "\(Self.base64URL(Data(header.utf8))).\(Self.base64URL(Data(payload.utf8)))"
        return
            "\(input).\(Self.base64URL(try key.signature(for: Data(input.utf8)).rawRepresentation))"
    }

    private var numbers: String {
        """
        (WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < \(count))
        SELECT n FROM numbers)
        """
    }

    /// 36 random characters in the form of a UUID.
    private static let uuid =
        "lower(\([4, 2, 2, 2, 6].map { "hex(randomblob(\($0)))" }.joined(separator: " || '-' || ")))"

    private static func base64URL(_ bytes: Data) -> String {
        bytes.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing(
            "=", with: "")
    }
}
