import Foundation
import Latchkey
import LatchkeyCredentials
import LatchkeyPresence
import LatchkeyTPM

/// Keeps OAuth tokens of several services. The TPM opens a token only after the PIN.
@main
struct CredentialsExample {
    static let usage = """
        Usage: credentials add SERVICE < FILE   store a token response (RFC 6749 section 5.1)
               credentials list                 list the services; does not prompt
               credentials whoami SERVICE       ask the server for the user, with the token
               credentials remove SERVICE       revoke the tokens at the server, and delete them
        """

    static func main() async {
        ProcessMemory.protect()
        do {
            try await run(Array(CommandLine.arguments.dropFirst()))
        } catch {
            print("\(error) \((error as? any ReportableError)?.recovery ?? "")")
            exit(1)
        }
    }

    static func run(_ arguments: [String]) async throws {
        try await openStore()
        switch (arguments.first, arguments.dropFirst().first) {
        case ("add", let service?):
            guard try find(service) == nil else {
                print("There are tokens of ‘\(service)’. Remove them first.")
                exit(1)
            }
            try await add(FileHandle.standardInput.readDataToEndOfFile(), for: service)
            print("The tokens of ‘\(service)’ are stored.")
        case ("list", nil):
            for credential in try Credential.allCredentials {
                // Tags and claims are not encrypted.
                let metadata = try credential.metadata
                let user = metadata.preferredUsername ?? metadata.subject ?? "unknown"
                print(metadata.tags["service"] ?? credential.id, "of", user)
            }
        case ("whoami", let service?):
            // Refreshes the access token first if it is about to expire.
            guard let user = try await find(service)?.userInfo() else { return missing(service) }
            print("You are \(user.preferredUsername ?? user.subject ?? "unknown").")
        case ("remove", let service?):
            guard let credential = try find(service) else { return missing(service) }
            try await credential.revoke()
            print("The tokens of ‘\(service)’ are revoked.")
        default:
            print(usage)
            exit(2)
        }
    }

    /// Opens the app's store, with keys in this machine's TPM. Does not prompt.
    static func openStore() async throws {
        let environment = ProcessInfo.processInfo.environment
        let store = try await RecordStore(
            directory: RecordStore.defaultDirectory(environment: environment),
            profile: "credentials")
        let keystore = TPMKeystore(tcti: environment["LATCHKEY_TCTI"], anchors: store)
        try await CredentialStore.bootstrap(
            CredentialStore(
                records: RecordContainer(store: store, keystore: keystore),
                presence: TerminalPresence(application: "Credentials")))
    }

    /// Stores the response of the server's token endpoint to the app's login.
    static func add(_ answer: Data, for service: String) async throws {
        let environment = ProcessInfo.processInfo.environment
        let token = try Token(
            response: answer,
            context: Token.Context(
                issuer: environment["LATCHKEY_ENDPOINT"] ?? "http://127.0.0.1:40123",
                clientID: environment["LATCHKEY_CLIENT_ID"] ?? "latchkey-demo"))
        try await Credential.store(token: token, tags: ["service": service], security: .pin)
    }

    static func find(_ service: String) throws -> Credential? {
        try Credential.find { $0.tags["service"] == service }.first
    }

    static func missing(_ service: String) {
        print("There are no tokens of ‘\(service)’.")
    }
}
