import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyOAuth
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

/// A user's devices at a fleet. Each request goes to another instance than the one before.
///
/// A request ends with success, with a temporary error, or, if it repeats one whose answer was
/// lost, with the refusal that the article on operating servers documents. Any other result is an
/// issue of the test.
actor FleetClient {
    /// The seconds within which each request ends.
    private static let deadline = 120

    /// The devices whose set-up the server confirmed.
    private var devices: [TestDevice]
    private let fleet: Fleet
    private let load: FleetLoad
    private let transport = CurlTransport(timeout: FleetClient.deadline)
    private var random: SplitMix
    private var instance: Int

    /// - Parameter device: A registered device.
    init(_ number: Int, with device: TestDevice, of fleet: Fleet, _ load: FleetLoad) {
        devices = [device]
        (self.fleet, self.load) = (fleet, load)
        random = SplitMix(seed: load.seed &+ UInt64(number) &* 0x9E37_79B9)
        instance = number
    }

    /// Logs in and uses the session until the load ends.
    func run() async throws {
        while !load.isOver {
            try Task.checkCancellation()
            try await useSession()
        }
    }

    /// Checks that every device whose set-up was confirmed can log in.
    func checkDevices() async throws {
        for device in devices { _ = try await repeated { try await login(device) } }
    }

    private func useSession() async throws {
        guard let device = devices.randomElement(using: &random),
            var tokens = try await login(device)
        else { return }
        load.add(.login)
        var used = ""
        for _ in 0..<Int.random(in: 1...2, using: &random) {
            used = try #require(tokens.refresh)
            guard let next = try await refresh(used) else { return }
            load.add(.refresh)
            tokens = next
        }
        if Int.random(in: 0..<4, using: &random) == 0 { try await setUp(bearer: tokens.access) }
        // A second use of a refresh token ends its session, so the last token is refused too.
        let last = try #require(tokens.refresh)
        for token in [used, last] {
            let answer = try await repeated { try await send(Self.refreshForm(token)) }
            try answer.expectRefusal(400, "invalid_grant", "invalid refresh token")
        }
        load.add(.refusedReplay)
    }

    // MARK: Steps

    /// - Returns: nil if the answer was lost.
    private func login(_ device: TestDevice) async throws -> Tokens? {
        let request = try device.authentication(challenge: try await challenge(), now: Self.now)
        return try await once(Self.biometricForm(request)).map { try Tokens($0.success()) }
    }

    /// Sets up a new device. If the answer is lost, the client does not know whether the device is
    /// registered, and forgets it.
    private func setUp(bearer: String) async throws {
        let device = TestDevice()
        let request = try device.setup(challenge: try await challenge(), now: Self.now)
        guard let answer = try await once(Self.biometricForm(request), bearer: bearer) else {
            return
        }
        try answer.success()
        devices.append(device)
        load.add(.setup)
    }

    /// Replaces a refresh token, with the same token until there is an answer.
    ///
    /// - Returns: nil if an earlier attempt, whose answer was lost, used the token.
    private func refresh(_ token: String) async throws -> Tokens? {
        var isLost = false
        let answer = try await repeated {
            let answer = try await send(Self.refreshForm(token))
            isLost = isLost || answer == nil
            return answer
        }
        guard answer.status != 200 else { return try Tokens(answer.success()) }
        try answer.expectRefusal(400, "invalid_grant", "invalid refresh token")
        try #require(isLost, "a refresh token that was not used is refused")
        load.add(.endedSession)
        return nil
    }

    private func challenge() async throws -> String {
        let answer = try await repeated {
            try await send(
                #"{"purpose":"biometric_request"}"#, to: "/oauth2/challenge",
                type: "application/json")
        }
        return try #require(try answer.success()["result"]?["token"]?.string)
    }

    /// Sends a request with a challenge until there is an answer, and once more after success.
    ///
    /// - Returns: The success; nil if an earlier attempt, whose answer was lost, used the
    ///   challenge.
    private func once(_ form: String, bearer: String? = nil) async throws -> Answer? {
        var isLost = false
        let answer = try await repeated {
            let answer = try await send(form, bearer: bearer)
            isLost = isLost || answer == nil
            return answer
        }
        guard answer.status == 200 else {
            // The same answer as for an unknown device.
            try answer.expectRefusal(400, "invalid_grant", "InvalidCredentials")
            try #require(
                isLost, "a challenge that was not used, or a registered device, is refused")
            load.add(.usedChallenge)
            return nil
        }
        let replay = try await repeated { try await send(form, bearer: bearer) }
        try replay.expectRefusal(400, "invalid_grant", "InvalidCredentials")
        load.add(.refusedReplay)
        return answer
    }

    // MARK: Requests

    /// Repeats a step until it has a result.
    private func repeated<Value: Sendable>(_ step: () async throws -> Value?) async throws -> Value
    {
        let end = ContinuousClock.now + hangLimit
        while ContinuousClock.now < end {
            try Task.checkCancellation()
            if let value = try await step() { return value }
        }
        throw NoResult()
    }

    /// A request had only temporary errors.
    private struct NoResult: Error {}

    /// Sends a request to the next instance.
    ///
    /// - Returns: nil after a temporary error: no answer, or 503 with `temporarily_unavailable` and
    ///   `Retry-After`.
    private func send(
        _ body: String, to path: String = "/oauth2/token",
        type: String = "application/x-www-form-urlencoded",
        bearer: String? = nil
    ) async throws -> Answer? {
        instance += 1
        let port = fleet.ports[instance % fleet.ports.count]
        var headers: HTTPFields = [.contentType: type]
        if let bearer { headers[.authorization] = "Bearer \(bearer)" }
        let request = HTTPRequest(
            method: .post, scheme: "http", authority: "127.0.0.1:\(port)", path: path,
            headerFields: headers)
        do {
            let (response, bytes) = try await transport.send(request, body: Array(body.utf8))
            let answer = Answer(
                status: response.status.code, headers: response.headerFields,
                body: String(decoding: bytes, as: UTF8.self))
            guard answer.status == 503 else { return answer }
            try answer.expectRefusal(
                503, "temporarily_unavailable",
                "the server cannot answer now, please try again later")
            #expect(answer.headers[.retryAfter] == "1")
        } catch let error as CommonError {
            try Task.checkCancellation()
            guard error.code == .unavailable else { throw error }
            #expect(
                !error.reason.contains("timed out"),
                "a request did not end within \(Self.deadline) s")
        }
        load.add(.temporaryError)
        // Shorter than Retry-After: a fault lasts less than a second.
        try await Task.sleep(for: .milliseconds(50))
        return nil
    }

    private static var now: Int { Int(Date().timeIntervalSince1970) }

    private static func refreshForm(_ token: String) -> String {
        TestServer.encode([
            "client_id": "app", "grant_type": "refresh_token", "refresh_token": token,
        ])
    }

    private static func biometricForm(_ request: String) -> String {
        TestServer.encode([
            "client_id": "app", "grant_type": TestServer.biometricGrant, "jwt": request,
            "scope": TestServer.fullScope,
        ])
    }
}
