internal import FoundationEssentials
internal import LatchkeyJOSE
internal import LatchkeyOAuth

extension Token {
    /// Whether the members are a token that AuthFoundation encoded: version 1 has the secrets as
    /// members, version 2 the server's response.
    static func isOfAuthFoundation(_ members: [String: JSONValue]) -> Bool {
        members["context"]?["configuration"] != nil
            && (members["rawValue"] != nil || members["accessToken"] != nil)
    }

    /// Reads a token that AuthFoundation 1 or 2 encoded with `JSONEncoder()`: the time is in seconds
    /// since 2001.
    ///
    /// - Throws: ``CredentialError`` with code `invalidInput`.
    init(authFoundation members: [String: JSONValue]) throws(CredentialError) {
        guard let id = members["id"]?.string,
            let configuration = members["context"]?["configuration"],
            let issuer = (configuration["issuerURL"] ?? configuration["baseURL"])?.string,
            let clientID = configuration["clientId"]?.string,
            let response = members["rawValue"]?.object ?? Self.response(ofVersion1: members)
        else { throw .unreadable("it is not a token that AuthFoundation stored") }
        // Without a time, the access token counts as expired.
        var issuedAt = Date(timeIntervalSince1970: 0)
        if let seconds = members["issuedAt"] {
            guard let number = seconds.number, abs(number) <= Self.lastTime else {
                throw .unreadable("‘issuedAt’ is not a time")
            }
            issuedAt = Date(timeIntervalSinceReferenceDate: number)
        }
        try self.init(
            TokenResponse(members: response),
            context: Context(
                issuer: issuer, clientID: clientID,
                clientSecret: configuration["authentication"]?["clientSecret"]?["_0"]?.string),
            id: id, receivedAt: issuedAt)
    }

    /// The server's response from the members of version 1.
    private static func response(ofVersion1 members: [String: JSONValue]) -> [String: JSONValue]? {
        guard members["accessToken"] != nil else { return nil }
        let names = [
            "accessToken": Member.accessToken, "tokenType": .tokenType, "expiresIn": .expiresIn,
            "refreshToken": .refreshToken, "idToken": .idToken, "deviceSecret": .deviceSecret,
            "scope": .scope,
        ]
        var response: [String: JSONValue] = [:]
        for (name, member) in names { response[member] = members[name] }
        return response
    }
}
