import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyCredentials

/// `latchkey credential add`.
struct CredentialAddCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "add",
        abstract: "Store the token that comes on standard input as JSON.",
        discussion: """
            The JSON is the answer of a token endpoint (RFC 6749 section 5.1). From whom it is, and for which client, say \
            its members ‘issuer’ and ‘client_id’, or --endpoint and --client-id, or its ID token.
            """)

    @OptionGroup var options: GlobalOptions

    @Option(name: .customLong("tag"), help: ArgumentHelp("A tag; may be repeated.", valueName: "name=value"))
    var tags: [TagArgument] = []

    @Option(help: "What the hardware asks for before it gives the token.")
    var policy = PolicyArgument(.none)

    func perform(in context: CommandContext) async throws -> CredentialReport {
        let secret = try StandardStreams.readSecret("add the credential")
        let token = try Self.token(secret, context.settings)
        let tags = Dictionary(tags.map { ($0.name, $0.value) }) { _, last in last }
        return try CredentialReport(
            await context.credentials().store(token: token, tags: tags, security: policy.policy))
    }

    /// What else the JSON may have, beside the answer.
    private struct Origin: Decodable {
        let issuer: String?
        let client_id: String?
    }

    private static func token(_ json: SecretBytes, _ settings: Settings) throws -> Token {
        try json.withUnsafeBytes { bytes in
            let data = Data(bytes)
            let decoder = JSONDecoder()
            guard let origin = try? decoder.decode(Origin.self, from: data) else { throw unreadable }
            let idToken = (try? decoder.decode([String: JSONValue].self, from: data))?["id_token"]?.string
                .flatMap(JWT.init)
            let issuer = origin.issuer ?? settings.endpoint ?? idToken?.issuer
            let clientID = origin.client_id ?? settings.clientID ?? idToken?.audience.first
            if let issuer, let clientID, let key = Token.contextKey {
                decoder.userInfo[key] = Token.Context(issuer: issuer, clientID: clientID)
            }
            do {
                return try decoder.decode(Token.self, from: data)
            } catch DecodingError.keyNotFound(let key, _) where key.stringValue == "context" {
                throw KeystoreError.invalidInput(
                    "add the credential", "the JSON does not say from which server and for which client the token is")
            } catch is DecodingError {
                throw unreadable
            }
        }
    }

    private static var unreadable: KeystoreError {
        .invalidInput("add the credential", "what came on standard input is not a token in JSON")
    }
}
