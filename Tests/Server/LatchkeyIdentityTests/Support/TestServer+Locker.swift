import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import latchkey_identity

/// An enrolled device with one easy-access key.
struct EnrolledDevice: Sendable {
    let id: String
    let key: LockerTestKey
    let easyAccess: LockerTestKey
    /// The tokens of the strong authentication that enrolled the device.
    let tokens: Tokens
    /// `level_shares` of the enrolment.
    let shares: JSONValue?

    /// The key that signs for an action of the protocol.
    func signer(of action: String) -> LockerTestKey {
        switch action {
        case "enrol", "easy-access-enable": LockerTestKey()
        case "easy-access": easyAccess
        default: key
        }
    }
}

extension TestServer {
    static let lockerPath = "/locker/enrolments"
    static let lockerActions = [
        "enrol", "easy-access-enable", "easy-access-disable", "easy-access", "background-access",
        "level-shares",
        "revoke",
    ]
    static let easyAccessGrant = "urn:latchkey:params:oauth:grant-type:easy-access"
    static let backgroundGrant = "urn:latchkey:params:oauth:grant-type:background-access"

    /// An assertion with a new challenge.
    func assertion(
        _ action: String, by key: LockerTestKey, of enrolment: String? = nil,
        header: [String: JSONValue] = [:],
        payload: [String: JSONValue] = [:]
    ) async throws -> String {
        try key.assertion(
            action, audience: origin, enrolment: enrolment,
            challenge: try await lockerChallenge(for: action),
            now: time.seconds, header: header, payload: payload)
    }

    func lockerChallenge(for action: String) async throws -> String? {
        action == "revoke" ? nil : try await challenge("locker_request")
    }

    /// Sends an assertion to its action's endpoint, with the device's signature if the action
    /// requires one.
    func send(
        _ assertion: String, as action: String, to device: EnrolledDevice, bearer: String? = nil,
        client: String = "app",
        form: [String: String] = [:]
    ) async throws -> Answer {
        let json = try json(["assertion": assertion])
        return switch action {
        case "enrol": try await enrol(assertion, bearer: bearer)
        case "easy-access-enable":
            try await enableEasyAccess(
                assertion, deviceSignature: device.key.countersignature(of: assertion),
                of: device.id, bearer: bearer)
        case "easy-access":
            try await token(Self.easyAccessGrant, assertion, client: client, form: form)
        case "background-access":
            try await token(Self.backgroundGrant, assertion, client: client, form: form)
        case "easy-access-disable":
            try await post("\(Self.lockerPath)/\(device.id)/easy-access/disable", json: json)
        default:
            try await post(
                "\(Self.lockerPath)/\(device.id)/\(action)", json: json,
                bearer: action == "revoke" ? nil : bearer)
        }
    }

    private func token(
        _ grant: String, _ assertion: String, client: String, form: [String: String]
    ) async throws -> Answer {
        try await post(
            "/oauth2/token",
            form: ["client_id": client, "grant_type": grant, "assertion": assertion].merging(form) {
                $1
            })
    }

    /// Logs in, enrols a device, and enables easy access.
    func enrolledDevice(_ username: String = "alice") async throws -> EnrolledDevice {
        let tokens = try await login(username)
        let (key, easyAccess) = (LockerTestKey(), LockerTestKey())
        let answer = try await enrol(assertion("enrol", by: key), bearer: tokens.access)
        try #require(answer.status == 201, "\(answer.body)")
        let device = EnrolledDevice(
            id: try #require(try answer.json["enrolment_id"]?.string), key: key,
            easyAccess: easyAccess, tokens: tokens,
            shares: try answer.json["level_shares"])
        let enabled = try await enableEasyAccess(easyAccess, of: device, bearer: tokens.access)
        try #require(enabled.status == 204, "\(enabled.body)")
        return device
    }

    func enrol(_ assertion: String, bearer: String?) async throws -> Answer {
        try await post(Self.lockerPath, json: json(["assertion": assertion]), bearer: bearer)
    }

    func enableEasyAccess(_ key: LockerTestKey, of device: EnrolledDevice, bearer: String?)
        async throws -> Answer
    {
        try await send(
            assertion("easy-access-enable", by: key, of: device.id), as: "easy-access-enable",
            to: device,
            bearer: bearer)
    }

    /// - Parameter deviceSignature: nil for none.
    func enableEasyAccess(
        _ assertion: String, deviceSignature: String?, of id: String, bearer: String?
    ) async throws -> Answer {
        var body = ["assertion": assertion]
        body["device_signature"] = deviceSignature
        return try await post(
            "\(Self.lockerPath)/\(id)/easy-access", json: json(body), bearer: bearer)
    }

    private func json(_ body: [String: String]) throws -> String {
        String(decoding: try JSONEncoder().encode(body), as: UTF8.self)
    }

    func disableEasyAccess(_ id: String, bearer: String?) async throws -> Answer {
        var headers: HTTPFields = [:]
        if let bearer { headers[.authorization] = "Bearer \(bearer)" }
        return try await send(
            .delete, "\(Self.lockerPath)/\(id)/easy-access", headers: headers)
    }

    /// Removes one easy-access key, with an assertion of the device.
    func disableEasyAccess(of device: EnrolledDevice, key: String) async throws -> Answer {
        try await send(
            assertion(
                "easy-access-disable", by: device.key, of: device.id,
                payload: ["easy_access_kid": .string(key)]),
            as: "easy-access-disable", to: device)
    }

    func easyAccess(
        _ device: EnrolledDevice, client: String = "app", form: [String: String] = [:]
    ) async throws -> Answer {
        try await perform("easy-access", device, client: client, form: form)
    }

    func backgroundAccess(
        _ device: EnrolledDevice, client: String = "app", form: [String: String] = [:]
    ) async throws -> Answer {
        try await perform("background-access", device, client: client, form: form)
    }

    func levelShares(_ device: EnrolledDevice, bearer: String?) async throws -> Answer {
        try await perform("level-shares", device, bearer: bearer)
    }

    func revoke(_ device: EnrolledDevice) async throws -> Answer {
        try await perform("revoke", device)
    }

    /// Performs an action with a new assertion of the right key.
    func perform(
        _ action: String, _ device: EnrolledDevice, bearer: String? = nil, client: String = "app",
        form: [String: String] = [:]
    ) async throws -> Answer {
        try await send(
            assertion(
                action, by: device.signer(of: action), of: action == "enrol" ? nil : device.id),
            as: action,
            to: device, bearer: bearer, client: client, form: form)
    }
}

extension Answer {
    static let notAccepted = "the assertion is not accepted"

    /// Expects that the assertion is not accepted.
    func expectNotAccepted(
        _ comment: String = "", sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        #expect(status == 400, "\(comment) \(body)", sourceLocation: sourceLocation)
        try expectRefusal(400, "invalid_grant", Self.notAccepted, sourceLocation: sourceLocation)
    }

    /// Expects `enrolment_revoked`.
    func expectRevoked(sourceLocation: SourceLocation = #_sourceLocation) throws {
        try expectRefusal(
            401, "enrolment_revoked", "there is no such enrolment", sourceLocation: sourceLocation)
    }

    /// Expects `easy_access_revoked`.
    func expectEasyAccessRevoked(sourceLocation: SourceLocation = #_sourceLocation) throws {
        try expectRefusal(
            400, "easy_access_revoked", "the enrolment has no such easy-access key",
            sourceLocation: sourceLocation)
    }

    /// Expects `insufficient_user_authentication`.
    func expectStrongAuthenticationWanted(sourceLocation: SourceLocation = #_sourceLocation) throws
    {
        try expectRefusal(
            403, "insufficient_user_authentication", "the user has to be authenticated again",
            sourceLocation: sourceLocation)
    }

    /// Expects 204 with an empty body.
    func expectDone(sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(status == 204, "\(body)", sourceLocation: sourceLocation)
        #expect(body.isEmpty && headers[.contentType] == nil, sourceLocation: sourceLocation)
        #expect(headers[.cacheControl] == "no-store", sourceLocation: sourceLocation)
    }
}
