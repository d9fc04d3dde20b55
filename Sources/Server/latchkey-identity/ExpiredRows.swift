import LatchkeyRelyingParty
import Logging
import ServiceLifecycle

/// Deletes expired rows in the background, never in a user's request. Several servers can do it at
/// the same time.
struct ExpiredRows: Service {
    /// The maximum number of rows of one transaction. A deleted grant has no other rows.
    static let batch = 500
    private static let interval = Duration.seconds(60)

    let database: any SQLDatabase
    let clock: WallClock
    let logger: Logger

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: Self.interval)) != nil {
                do {
                    try await delete()
                } catch {
                    logger.warning("expired rows were not deleted", metadata: ["error": "\(error)"])
                }
            }
        }
    }

    /// Deletes all rows that have expired.
    func delete() async throws {
        try await delete("access_token", "digest")
        try await delete("dpop_proof", "digest")
        try await delete(
            "offline_grant", "id", by: "idle_expires_at",
            where: "NOT EXISTS (SELECT 1 FROM access_token WHERE grant_id = offline_grant.id)")
        try await delete("authorization_code", "digest")
        try await delete("web_session", "digest")
        try await delete("app_session_token", "digest")
        try await delete("pending_activation", "id")
    }

    private func delete(
        _ table: StaticString, _ key: StaticString, by column: StaticString = "expires_at",
        where condition: SQLText = "TRUE"
    ) async throws {
        var count = Self.batch
        while count == Self.batch {
            count = try await database.write { [clock] database in
                try database.execute(
                    database.deletionOfExpired(
                        from: table, key: key, by: column, at: clock.timestamp(in: database),
                        where: condition, limit: Self.batch))
            }
        }
    }
}
