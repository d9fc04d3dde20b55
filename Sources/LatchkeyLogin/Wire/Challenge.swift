internal import FoundationEssentials

/// A one-time challenge from the server.
struct Challenge: Sendable {
    /// How long a server keeps a challenge when it does not say.
    static let defaultLife: Duration = .seconds(300)

    /// Opaque; 32 characters from today's servers.
    let token: String
    /// How long it lives, counted from when it came.
    let life: Duration
    private let received = ContinuousClock.now

    /// - Parameters:
    ///   - result: What the server said.
    ///   - date: The server's clock when it said so.
    init(_ result: Result, date: Date?) {
        token = result.token
        guard let date, let text = result.expiresAt, let expiry = Self.date(text) else {
            life = Self.defaultLife
            return
        }
        life = .seconds(max(0, expiry.timeIntervalSince(date)))
    }

    /// Whether the server has forgotten it by now. Measured on a clock that nobody sets.
    var isExpired: Bool { ContinuousClock.now - received >= life }

    /// RFC 3339, with and without a fraction.
    private static func date(_ text: String) -> Date? {
        (try? Date(text, strategy: .iso8601)) ?? (try? Date(text, strategy: .iso8601.fractional))
    }

    struct Result: Decodable {
        let token: String
        let expiresAt: String?

        private enum CodingKeys: String, CodingKey {
            case token
            case expiresAt = "expire_at"
        }
    }

    /// How it comes: `{"result": {…}}`.
    struct Envelope: Decodable {
        let result: Result
    }

    /// What is asked.
    struct Request: Encodable {
        let purpose = "biometric_request"
    }
}

extension Date.ISO8601FormatStyle {
    fileprivate var fractional: Date.ISO8601FormatStyle { Date.ISO8601FormatStyle(includingFractionalSeconds: true) }
}
