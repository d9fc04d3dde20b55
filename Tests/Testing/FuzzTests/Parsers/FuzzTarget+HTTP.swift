import FoundationEssentials
import HTTPTypes
import LatchkeyJOSE

@testable import Latchkey
@testable import LatchkeyCredentials
@testable import LatchkeyLocker
@testable import LatchkeyLogin
@testable import LatchkeyOAuth

/// Responses of servers: each body is read as every response that a facade expects.
extension FuzzTarget {
    static let loginAnswers = FuzzTarget("login-answers") { (input) throws(Contradiction) in
        let date = HTTPFields([HTTPField(name: .date, value: "Sun, 06 Nov 2094 08:49:37 GMT")])
        let answer = ServerResponse<LoginErrorCode>(status: 200, fields: date, body: Data(input))
        if let metadata = try? answer.json(ProviderMetadata.self) {
            _ = (metadata.challenge?.text, metadata[.biometricRemoval]?.appending("/x").text)
        }
        if let envelope = try? answer.json(LoginChallenge.Envelope.self) {
            _ = LoginChallenge(envelope.result, date: answer.date).isExpired
        }
        if let codes = (try? answer.json([String: JSONValue].self)).flatMap({
            try? DeviceAuthorization($0)
        }) {
            try expect(
                codes.interval >= .seconds(1) && codes.interval <= .seconds(300)
                    && codes.lifetime <= .seconds(1800) && codes.userCode.utf8.count <= 64,
                "a value of a login on any device is out of its bounds")
        }
        let tokens = answer.tokens()
        _ = try? LoginAccessToken(tokens, receivedAt: Date()).refreshAt
        _ = (tokens.notes, tokens.refreshToken, try? tokens.required(.idToken))
        if let checked = try? tokens.checked() {
            try expect(
                !checked.accessToken.isEmpty && checked.accessToken.isVisibleASCII,
                "the access token is not fit for a header field")
            try expect(
                TokenResponse(members: checked.members).members == checked.members,
                "members that were read are read as others")
        }
        _ = try? answer.json(JWKS.self).skipped.map(\.text)
        if let user = try? answer.json(LatchkeyLogin.UserInfo.self) {
            let again = (try? JSONEncoder().encode(user)).flatMap {
                try? JSONDecoder().decode(LatchkeyLogin.UserInfo.self, from: $0)
            }
            try expect(
                again == user, "the user that was written differs from the user that was read")
        }
        _ = LoginSession(SecretBytes(answer.body), generation: 1)
        _ = LoginError(.refused(ServerRefusal(status: 400, body: Data(input)))).description
    }

    static let credentialAnswers = FuzzTarget("credential-answers") {
        (input) throws(Contradiction) in
        let json = Data(input)
        let context = Token.Context(issuer: "https://a.example", clientID: "client")
        _ = try? JSONDecoder().decode(ProviderMetadata.self, from: json)
        _ = try? ReceivedJSON.decode(TokenIntrospection.Received.self, from: json)
            .introspection.subject
        _ = try? ReceivedJSON.decode(Credential.UserInfo.Received.self, from: json).user.subject
        if let token = try? Token(response: json, context: context) { try look(at: token) }
        if let token = try? JSONDecoder().decode(Token.self, from: json) {
            try look(at: token)
            let again = (try? JSONEncoder().encode(token)).flatMap {
                try? JSONDecoder().decode(Token.self, from: $0)
            }
            try expect(again == token, "a token is written as something else")
        }
        if let answer = try? RefreshAnswer(SecretBytes(input), id: "1") {
            try look(at: answer.token)
        }
        let old = try? Token(response: Data(oldToken.utf8), context: context)
        if let answer = try? old?.refreshed(by: TokenResponse(json), at: Date(), serverDate: nil) {
            try look(at: answer.token)
        }
    }

    static let lockerAnswers = FuzzTarget("locker-answers") { (input) throws(Contradiction) in
        let answer = ServerResponse<ErsteGroupAuthErrorCode>(
            status: 200, fields: [:], body: Data(input))
        if let discovery = try? answer.json(ProviderMetadata.self) {
            _ = (discovery.challenge?.text, discovery.enrolment?.appending("/x").text)
        }
        _ = try? answer.json(LockerEnrolmentAnswer.self)
        _ = try? answer.checkedTokens()[.scope]
        _ = try? answer.shares()
        if let attributes = try? JSONDecoder().decode([String: String].self, from: answer.body) {
            var counters = LockerCounters(attributes, generation: 0)
            _ = counters.isTooOld(at: Date(), maximumAge: .seconds(60))
            counters.see(Date())
            _ = LevelWraps(attributes)
        }
    }

    /// Texts that a locker encrypted, and keys that it wrapped.
    static let lockerTexts = FuzzTarget("locker-texts") { (input) throws(Contradiction) in
        let key = LevelKey(SecretBytes([UInt8](repeating: 1, count: LevelKey.byteCount)))
        for text in [String(decoding: input, as: UTF8.self), Base64URL.encode(input)] {
            _ = try? ProtectedText(text).open(with: key)
        }
        let wrapped = Base64URL.encode(input)
        guard
            let wraps = LevelWraps([
                "wrap.background": wrapped, "wrap.active": wrapped, "wrap.offline": wrapped,
            ])
        else { return }
        for level in [ProtectionLevel.background, .active] {
            _ = try? wraps.open(
                level, deviceSecret: key.secret, share: nil, enrolmentID: "12345678")
        }
    }

    /// Requests to the loopback port of a login, and URLs and dates in responses.
    static let redirects = FuzzTarget("redirects") { (input) throws(Contradiction) in
        let text = String(decoding: input, as: UTF8.self)
        let request = AuthorizationRequest(
            clientID: "c", scope: "s", options: AuthorizationOptions(),
            issuer: "https://a.example", requiresIssuer: input.first == 0, hint: nil)
        _ = request.answer(text)
        _ = request.answer(text + "&state=\(request.state)")
        if let fields = FormEncoding.decode(text) {
            let pairs = fields.map { (name: $0.key, value: $0.value) }
            try expect(
                FormEncoding.decode(FormEncoding.encode(pairs)) == fields,
                "a form is written as something else")
        }
        if let endpoint = Endpoint(text) {
            try expect(
                Endpoint(endpoint.text) == endpoint, "an address is written as something else")
            _ = endpoint.appending("/x").text
            _ = request.url(at: endpoint, redirectURI: "http://127.0.0.1:1/")
        }
        _ = HTTPDate.parse(text)
        if let bytes = Base64URL.decode(text) {
            try expect(Base64URL.encode(bytes) == text, "base64url has a second spelling")
        }
        _ = KeyID(rawValue: text)
    }

    private static let oldToken =
        #"{"access_token":"a","token_type":"Bearer","refresh_token":"r","expires_in":60}"#

    /// Reads the members of a valid token and writes its row.
    private static func look(at token: Token) throws(Contradiction) {
        _ = (token.isExpired(), token.subject, token.scope)
        let row = CredentialRows.metadata(
            of: token, tags: ["tag": "a"], security: .none, copying: .all)
        guard let metadata = try? CredentialRows.metadata(row) else {
            throw Contradiction(description: "the row of a token cannot be read")
        }
        let schedule = RefreshSchedule(grace: 300)
        guard case .wait(let seconds) = schedule.next(metadata, at: Date()) else { return }
        try expect((1...RefreshSchedule.longestWait).contains(seconds), "a wait of \(seconds) s")
    }
}
