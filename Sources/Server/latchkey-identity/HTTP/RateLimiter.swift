import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty

/// Limits events per name and time window: in memory for a server with SQLite, which is one
/// process, and in the database for servers that share a PostgreSQL database.
struct RateLimiter: Sendable {
    private enum Counters: Sendable {
        case memory(MemoryRateCounters)
        case database(any SQLDatabase)
    }

    /// The length in bytes above which a name is stored as a digest: requests can contain names of
    /// any length.
    private static let maximumNameLength = 128

    private let counters: Counters
    private let kind: String
    let limit: Int
    private let duration: TimeInterval
    private let clock: WallClock

    /// - Parameters:
    ///   - kind: Limiters of different kinds on the same database do not share counts.
    ///   - duration: The length of a window in seconds.
    ///   - maximumNames: The maximum number of names in memory; see ``MemoryRateCounters``.
    init(
        _ kind: String, limit: Int, per duration: TimeInterval, maximumNames: Int = 10_000,
        database: (any SQLDatabase)? = nil, clock: WallClock
    ) {
        self.kind = kind
        self.limit = limit
        self.duration = duration
        self.clock = clock
        if let database, database.dialect == .postgreSQL {
            counters = .database(database)
        } else {
            counters = .memory(
                MemoryRateCounters(
                    limit: limit, per: duration, maximumNames: maximumNames, clock: clock))
        }
    }

    /// A limit per minute, of the configuration's member `kind`.
    static func perMinute(
        _ kind: String, _ limit: Int, _ database: any SQLDatabase, _ clock: WallClock
    ) -> RateLimiter {
        RateLimiter(kind, limit: limit, per: 60, database: database, clock: clock)
    }

    /// Counts one event.
    ///
    /// - Returns: Whether the event is within the limit.
    func admit(_ name: String) async throws -> Bool {
        switch counters {
        case .memory(let counters): counters.admit(Self.key(name))
        case .database(let database):
            try await database.write { try count(name, in: $0).count <= limit }
        }
    }

    /// Seconds until the next event of this name is admitted; nil if it would be admitted now.
    /// Counts nothing.
    func wait(_ name: String) async throws -> TimeInterval? {
        switch counters {
        case .memory(let counters): counters.wait(Self.key(name))
        case .database(let database): try await database.read { try wait(name, in: $0) }
        }
    }

    /// Sets the count of a name to zero.
    func reset(_ name: String) async throws {
        switch counters {
        case .memory(let counters): counters.reset(Self.key(name))
        case .database(let database): try await database.write { try reset(name, in: $0) }
        }
    }

    /// Subtracts one event.
    func withdraw(_ name: String) async throws {
        switch counters {
        case .memory(let counters): counters.withdraw(Self.key(name))
        case .database(let database): try await database.write { try withdraw(name, in: $0) }
        }
    }

    /// Counts one event.
    ///
    /// - Throws: ``OAuthError`` with `Retry-After` if the event exceeds the limit.
    func require(_ name: String) async throws {
        guard try await admit(name) else {
            throw OAuthError(
                429, "rate_limited", "there were too many requests",
                retryAfter: try await secondsToWait(name))
        }
    }

    /// Whole seconds until the next event of this name is admitted, at least one.
    func secondsToWait(_ name: String) async throws -> Int {
        max(1, Int((try await wait(name) ?? 0).rounded(.up)))
    }

    private static func key(_ name: String) -> String {
        name.utf8.count <= maximumNameLength
            ? name : Base64URL.encode(Data(MessageDigest(sha256: name.utf8).bytes))
    }
}

extension RateLimiter {
    private func row(_ name: String) -> String { "\(kind) \(Self.key(name))" }

    /// Counts one event; one statement, so that no event of another server is lost. It also deletes
    /// expired rows.
    func count(_ name: String, in database: any SQLConnection) throws -> (
        count: Int, wait: TimeInterval
    ) {
        let now = clock.timestamp(in: database)
        // A statement must not change the same row twice.
        let deletion = database.deletionOfExpired(
            from: "rate_limit", at: now, except: "name = \(row(name))")
        let counted = try database.row(
            """
            WITH counted AS (
                INSERT INTO rate_limit AS old (name, started_at, expires_at, count)
                VALUES (\(row(name)), \(now), \(now + duration), 1)
                ON CONFLICT (name) DO UPDATE SET
                    started_at = CASE WHEN old.expires_at <= \(now) THEN \(now) ELSE old.started_at END,
                    expires_at = CASE WHEN old.expires_at <= \(now) THEN \(now + duration) ELSE old.expires_at END,
                    count = CASE WHEN old.expires_at <= \(now) THEN 1 ELSE old.count + 1 END
                RETURNING count, expires_at
            ), deleted AS (
                \(deletion)
            )
            SELECT count, expires_at FROM counted
            """)
        guard let counted else {
            throw SQLFailure(.statement, "the database did not count a request")
        }
        return (try counted.integer("count"), max(0, try counted.real("expires_at") - now))
    }

    func wait(_ name: String, in database: any SQLConnection) throws -> TimeInterval? {
        let now = clock.timestamp(in: database)
        return try database.row(
            """
            SELECT expires_at FROM rate_limit
            WHERE name = \(row(name)) AND count >= \(limit) AND expires_at > \(now)
            """
        ).map { try $0.real("expires_at") - now }
    }

    func reset(_ name: String, in database: any SQLConnection) throws {
        try database.execute("DELETE FROM rate_limit WHERE name = \(row(name))")
    }

    func withdraw(_ name: String, in database: any SQLConnection) throws {
        try database.execute(
            "UPDATE rate_limit SET count = count - 1 WHERE name = \(row(name)) AND count > 0")
    }

    /// The database that counts; nil for memory.
    var database: (any SQLDatabase)? {
        if case .database(let database) = counters { database } else { nil }
    }
}
