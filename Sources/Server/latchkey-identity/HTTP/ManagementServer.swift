import Hummingbird
import LatchkeyRelyingParty
import Logging
import ServiceLifecycle
import Synchronization

/// The second port, for the operator's load balancer and monitoring. Do not make it public.
///
/// | path | answer |
/// |---|---|
/// | `/health/live` | 200 while the process serves |
/// | `/health/ready` | 200 if the database and its signing keys can be used within two seconds, or else 503; 503 during the drain |
/// | `/metrics` | the metrics in Prometheus's text format |
enum ManagementServer {
    static func application(
        host: String, port: Int, database: any SQLDatabase, signer: IDTokenSigner, drain: Drain,
        metrics: PrometheusMetrics, logger: Logger,
        onReady: @escaping @Sendable (Int) -> Void = { _ in }
    ) -> some ApplicationProtocol {
        let router = Router()
        router.get("/health/live") { _, _ in Response(status: .ok) }
        router.get("/health/ready") { _, _ in
            guard !drain.hasBegun, await isReady(database, signer) else {
                return Response(status: .serviceUnavailable)
            }
            return Response(status: .ok)
        }
        router.get("/metrics") { _, _ in
            Response(
                status: .ok, headers: [.contentType: "text/plain; version=0.0.4; charset=utf-8"],
                body: ResponseBody(byteBuffer: ByteBuffer(string: metrics.text)))
        }
        return Application(
            router: router,
            configuration: ApplicationConfiguration(
                address: .hostname(host, port: port), serverName: "latchkey-identity management"),
            onServerRunning: { onReady($0.localAddress?.port ?? port) }, logger: logger)
    }

    /// Whether the database answers within two seconds, and the server can sign with its keys.
    static func isReady(_ database: any SQLDatabase, _ signer: IDTokenSigner) async -> Bool {
        // A task group would wait for both, and not all of a check can be cancelled.
        let (answers, continuation) = AsyncStream.makeStream(of: Bool.self)
        let check = Task {
            do {
                try await database.check()
                _ = try await signer.published()
                continuation.yield(true)
            } catch {
                continuation.yield(false)
            }
        }
        let limit = Task {
            try await Task.sleep(for: .seconds(2))
            continuation.yield(false)
        }
        defer {
            check.cancel()
            limit.cancel()
        }
        return await answers.first { _ in true } ?? false
    }
}

/// Keeps the server running for a time after SIGTERM, while it reports that it is not ready, so
/// that a load balancer sends its new requests to other servers.
final class Drain: Service, Sendable {
    private let time: Duration
    private let begun = Atomic(false)

    var hasBegun: Bool { begun.load(ordering: .acquiring) }

    init(_ time: Duration) { self.time = time }

    /// The service group ends its services in reverse order, so it ends the servers when this
    /// returns.
    func run() async throws {
        try? await gracefulShutdown()
        begun.store(true, ordering: .releasing)
        try? await Task.sleep(for: time)
    }
}
