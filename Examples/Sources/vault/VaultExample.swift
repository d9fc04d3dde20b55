import Foundation
import Latchkey
import LatchkeyPresence
import LatchkeyTPM
import LatchkeyVault

/// Keeps one password, which only this machine can read, and only after the PIN.
@main
struct VaultExample {
    static let usage = """
        Usage: vault store < FILE   store the first line of the input, or replace the stored one
               vault show           print the stored line
               vault erase          delete it, also if it cannot be read
        """

    static func main() async {
        ProcessMemory.protect()
        do {
            try await run(CommandLine.arguments.dropFirst().first)
        } catch {
            tell("\(error) \((error as? any ReportableError)?.recovery ?? "")")
            exit(1)
        }
    }

    static func run(_ command: String?) async throws {
        let vault = try await openVault()
        switch command {
        case "store":
            guard let password = readLine() else { return tell("The input is empty.") }
            try await store(password, in: vault)
            tell("The password is stored.")
        case "show":
            guard let password = try await read(vault) else {
                return tell("There is no password.")
            }
            print(password)
        case "erase":
            _ = try await vault.reset()
            tell("The password is deleted.")
        default:
            tell(usage)
            exit(2)
        }
    }

    /// Opens the app's store, with keys in this machine's TPM. Does not prompt.
    static func openVault() async throws -> Vault<String> {
        let environment = ProcessInfo.processInfo.environment
        let store = try await RecordStore(
            directory: RecordStore.defaultDirectory(environment: environment), profile: "vault")
        let keystore = TPMKeystore(tcti: environment["LATCHKEY_TCTI"], anchors: store)
        try await VaultSpace.bootstrap(
            VaultSpace(
                records: RecordContainer(store: store, keystore: keystore),
                presence: TerminalPresence(application: "Vault"), policy: .pin))
        return VaultFactory.retrieveVault(key: "password")
    }

    static func store(_ password: String, in vault: Vault<String>) async throws {
        switch vault {
        case .empty(let vault), .emptyWithBiometrics(let vault):
            _ = try await vault.storeToBiometrics(credentials: password)
        case .keychain(let vault), .keychainUpgradable(let vault):
            _ = try await vault.upgrade().update(credentials: password)
        case .biometrics(let vault):
            _ = try await vault.update(credentials: password)
        case .locked(let vault):
            _ = try await vault.unlock().update(credentials: password)
        }
    }

    static func read(_ vault: Vault<String>) async throws -> String? {
        switch vault {
        case .empty, .emptyWithBiometrics: nil
        case .keychain(let vault), .keychainUpgradable(let vault): try await vault.read()
        case .biometrics(let vault): try vault.read()
        case .locked(let vault): try await vault.unlock().read()
        }
    }

    /// Prints a text for the user. Standard output has only the password.
    static func tell(_ text: String) {
        try? FileHandle.standardError.write(contentsOf: Data("\(text)\n".utf8))
    }
}
