internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyJOSE

/// A server's response to a device authorization request (RFC 8628 section 3.2): the codes for a
/// login with a browser on any device.
package struct DeviceAuthorization: Sendable {
    /// The time between two requests if the response states none (section 3.2).
    static let defaultInterval: Duration = .seconds(5)
    /// The maximum that a response may state.
    static let maximumInterval: TimeInterval = 300
    /// The maximum time for the login. A longer one is cut.
    static let maximumLifetime: TimeInterval = 1800

    /// The code that the client redeems. The user does not need it.
    let deviceCode: String
    /// The code that the user enters on ``page``: at most 64 bytes, visible characters.
    package let userCode: String
    /// The page on which the user logs in. ``OAuthClient/authorizeDevice(scope:)`` checks its origin.
    package let page: Endpoint
    /// The page with the code in its address, if the server has one.
    package let pageWithCode: Endpoint?
    /// The time in which the user must log in.
    package let lifetime: Duration
    /// The time between two requests.
    let interval: Duration

    /// A member that the response lacks, or whose value is not valid or out of its bounds.
    struct Flaw: Error {
        let name: String
    }

    init(_ members: [String: JSONValue]) throws(Flaw) {
        func valid<Value>(
            _ name: String, _ read: (JSONValue) -> Value?
        ) throws(Flaw) -> Value {
            guard let value = members[name].flatMap(read) else { throw Flaw(name: name) }
            return value
        }
        func optional<Value>(
            _ name: String, _ read: (JSONValue) -> Value?
        ) throws(Flaw) -> Value? {
            switch members[name] {
            case nil, .null, "": return nil
            default: return try valid(name, read)
            }
        }
        deviceCode = try valid("device_code") {
            $0.string.flatMap {
                $0.isVisibleASCII && (1...4096).contains($0.utf8.count) ? $0 : nil
            }
        }
        userCode = try valid("user_code") {
            $0.string.flatMap { $0.isName(maximumBytes: 64) ? $0 : nil }
        }
        // Google's name for it, from before the standard.
        let isStandard = try optional("verification_uri") { $0 } != nil
        let hasOther = try optional("verification_url") { $0 } != nil
        page = try valid(!isStandard && hasOther ? "verification_url" : "verification_uri") {
            $0.string.flatMap(Self.page)
        }
        let seconds = try valid("expires_in") { $0.decimal.flatMap { $0 >= 1 ? $0 : nil } }
        lifetime = .seconds(min(seconds, Self.maximumLifetime))
        pageWithCode = try optional("verification_uri_complete") { $0.string.flatMap(Self.page) }
        let pause = try optional("interval") {
            $0.decimal.flatMap { (0...Self.maximumInterval).contains($0) ? $0 : nil }
        }
        interval = pause.map { .seconds(max(1, $0)) } ?? Self.defaultInterval
    }

    private static func page(_ address: String) -> Endpoint? {
        address.utf8.count <= 2048 ? Endpoint(address) : nil
    }
}
