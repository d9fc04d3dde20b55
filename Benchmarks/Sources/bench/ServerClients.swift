import Foundation
import HTTPTypes
import LatchkeyOAuth
import Synchronization

/// Clients that log in at the same time, each with the next device after a login.
final class ServerClients: Sendable {
    static let count = 50

    private let origin: String
    private let devices: ServerDevices
    private let kids: [String]
    private let transport = CurlTransport()
    /// The number of the next login.
    private let next = Mutex(0)

    /// - Parameter kids: The key IDs of the devices that log in, one after the other.
    init(_ origin: String, _ devices: ServerDevices, kids: [String]) {
        self.origin = origin
        self.devices = devices
        self.kids = kids
    }

    /// Logs in.
    ///
    /// - Parameter count: The number of logins of all clients.
    func logIn(_ count: Int) async throws {
        let last = next.withLock { $0 } + count
        try await withThrowingTaskGroup { group in
            for _ in 0..<Self.count {
                group.addTask {
                    while let number = self.number(before: last) {
                        try await self.logIn(as: number)
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    private func number(before end: Int) -> Int? {
        next.withLock { next in
            guard next < end else { return nil }
            next += 1
            return next - 1
        }
    }

    private func logIn(as number: Int) async throws {
        struct Issued: Decodable {
            struct Result: Decodable {
                let token: String
            }

            let result: Result
        }
        let device = number % kids.count
        let answer = try await post(
            "/oauth2/challenge", #"{"purpose":"biometric_request"}"#, type: "application/json")
        let challenge = try JSONDecoder().decode(Issued.self, from: answer).result.token
        let request = try devices.request(
            kid: kids[device], challenge: challenge, issuer: origin)
        let grant = "urn%3Aauthgear%3Aparams%3Aoauth%3Agrant-type%3Abiometric-request"
        let form = "client_id=\(ServerDevices.clientID)&grant_type=\(grant)&jwt=\(request)"
        _ = try await post("/oauth2/token", form, type: "application/x-www-form-urlencoded")
    }

    private func post(_ path: String, _ body: String, type: String) async throws -> Data {
        var request = HTTPRequest(
            method: .post, scheme: "http", authority: String(origin.dropFirst("http://".count)),
            path: path)
        request.headerFields[.contentType] = type
        let (response, bytes) = try await transport.send(request, body: Array(body.utf8))
        guard response.status.code == 200 else {
            throw Failure(
                reason: "\(path): \(response.status.code) \(String(decoding: bytes, as: UTF8.self))"
            )
        }
        return Data(bytes)
    }
}
