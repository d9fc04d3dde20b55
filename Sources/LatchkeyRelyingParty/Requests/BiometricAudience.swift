/// The server and the client that a biometric request must name in its claims `aud` and `client_id`.
public struct BiometricAudience: Hashable, Sendable {
    /// The server's issuer.
    public let issuer: String
    /// The OAuth client that sends the request.
    public let clientID: String

    /// - Parameters:
    ///   - issuer: See ``issuer``; the discovery document's, character by character.
    ///   - clientID: See ``clientID``; the form's `client_id`.
    public init(issuer: String, clientID: String) {
        self.issuer = issuer
        self.clientID = clientID
    }
}
