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

    /// - Returns: nil if the response lacks a member, or if a value is not valid or out of its
    ///   bounds.
    init?(_ members: [String: JSONValue]) {
        guard let deviceCode = members["device_code"]?.string, deviceCode.isVisibleASCII,
            (1...4096).contains(deviceCode.utf8.count),
            let userCode = members["user_code"]?.string, userCode.isName(maximumBytes: 64),
            let address = members["verification_uri"]?.string, let page = Self.page(address),
            let lifetime = members["expires_in"]?.number, lifetime >= 1
        else { return nil }
        self.deviceCode = deviceCode
        self.userCode = userCode
        self.page = page
        self.lifetime = .seconds(min(lifetime, Self.maximumLifetime))
        switch members["verification_uri_complete"] {
        case nil, .null: pageWithCode = nil
        case let value?:
            guard let page = value.string.flatMap(Self.page) else { return nil }
            pageWithCode = page
        }
        switch members["interval"] {
        case nil, .null: interval = Self.defaultInterval
        case let value?:
            guard let seconds = value.number, (0...Self.maximumInterval).contains(seconds) else {
                return nil
            }
            interval = .seconds(max(1, seconds))
        }
    }

    private static func page(_ address: String) -> Endpoint? {
        address.utf8.count <= 2048 ? Endpoint(address) : nil
    }
}
