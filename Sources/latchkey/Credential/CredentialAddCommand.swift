import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyCredentials

/// `latchkey credential add`.
struct CredentialAddCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "add",
        abstract: "Store a token that is read from stdin.",
        discussion: """
            stdin is the JSON object that the server's token endpoint sent. What its ID token does not say, --endpoint \
            and --client-id do. The first credential of a container becomes the default.
            """)

    @OptionGroup var options: GlobalOptions

    @Option(name: .customLong("tag"), help: ArgumentHelp("A label to find it by; may be repeated.", valueName: "k=v"))
    var tags: [TagArgument] = []

    @Option(help: "What the hardware is to demand before it opens the token.")
    var policy = PolicyArgument(.none)

    func perform(in context: CommandContext) async throws -> CredentialReport {
        let token = try Self.token(context.readSecret("read the token"), settings: context.settings)
        let store = try await context.credentials()
        let credential = try await store.store(token, tags: tags.tags, security: policy.policy)
        return try store.report(credential, isRevocable: await store.isStoredRevocably(id: credential.id))
    }

    /// A token as ``Token`` writes it, or a server's answer.
    private static func token(_ json: SecretBytes, settings: Settings) throws -> Token {
        let data = json.withUnsafeBytes { Data($0) }
        guard (try? JSONDecoder().decode(Written.self, from: data)) == nil else {
            do {
                return try JSONDecoder().decode(Token.self, from: data)
            } catch is DecodingError {
                throw KeystoreError.invalidInput("read the token", "it is damaged, or of another version of Latchkey")
            }
        }
        var context: Token.Context?
        if let issuer = settings.endpoint, let clientID = settings.clientID {
            context = Token.Context(issuer: issuer, clientID: clientID)
        }
        return try Token(response: data, context: context)
    }

    /// What only a token has that ``Token`` wrote.
    private struct Written: Decodable {
        let response: [String: JSONValue]
    }
}
