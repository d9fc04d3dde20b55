import Foundation
import Latchkey
import LatchkeyLogin
import LatchkeyPresence
import LatchkeyTPM

/// Logs in: in the browser the first time, and afterwards with the PIN of a key in the TPM.
@main
struct LoginExample {
    static let usage = """
        Usage: login          log in
               login whoami   show the user's name, from the server
               login logout   end the session, and delete the key
        """

    static func main() async {
        ProcessMemory.protect()
        do {
            try await run(CommandLine.arguments.dropFirst().first)
        } catch {
            print("\(error) \((error as? any ReportableError)?.recovery ?? "")")
            exit(1)
        }
    }

    static func run(_ command: String?) async throws {
        let container = try await openContainer()
        switch command {
        case nil:
            print("You are \(name(of: try await logIn(container))).")
        case "whoami":
            print("You are \(name(of: try await container.fetchUserInfo())).")
        case "logout":
            try await container.logout()
            print("You are logged out.")
        default:
            print(usage)
            exit(2)
        }
    }

    static func openContainer() async throws -> Container {
        let environment = ProcessInfo.processInfo.environment
        let store = try await RecordStore(
            directory: RecordStore.defaultDirectory(environment: environment), profile: "login")
        let keystore = TPMKeystore(tcti: environment["LATCHKEY_TCTI"], anchors: store)
        return try Container(
            ContainerConfiguration(
                endpoint: environment["LATCHKEY_ENDPOINT"] ?? "http://127.0.0.1:40123",
                clientID: environment["LATCHKEY_CLIENT_ID"] ?? "latchkey-demo", policy: .pin),
            records: RecordContainer(store: store, keystore: keystore),
            presence: TerminalPresence(application: "Login"),
            browser: SystemBrowser(environment: environment) { print($0) })
    }

    /// Logs in with the key. Without a key, logs in in the browser, and creates a key.
    static func logIn(_ container: Container) async throws -> UserInfo {
        if try await container.isBiometricEnabled() {
            do {
                return try await container.authenticateBiometric().userInfo
            } catch let error as LoginError where error.code == .identityNotFound {
                // The user removed this machine on the server's page. The key is deleted.
                print(error)
            } catch let error as KeystoreError where error.code == .invalidated {
                // The TPM no longer has the key. A new one replaces it.
                print(error)
            }
        }
        let user = try await container.authorize().userInfo
        do {
            try await container.enableBiometric(replacing: true)
        } catch let error as KeystoreError where error.code == .cancelled {
            // The user is logged in, and the next login is in the browser again.
            print(error)
        }
        return user
    }

    static func name(of user: UserInfo) -> String { user.preferredUsername ?? user.userID }
}
