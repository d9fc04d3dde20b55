import Foundation
import Latchkey
import LatchkeyPresence
import LatchkeyTPM

@main
struct Greeting {
    static func main() async {
        do {
            try await greet()
        } catch {
            print("\(error) \((error as? KeystoreError)?.recovery ?? "")")
            exit(1)
        }
    }

    static func greet() async throws {
        let environment = ProcessInfo.processInfo.environment
        let store = try await RecordStore(
            directory: RecordStore.defaultDirectory(environment: environment))
        let keystore = TPMKeystore(tcti: environment["LATCHKEY_TCTI"], anchors: store)
        let prompt = PromptContext(reason: "sign a greeting")

        let key = try await keystore.createKey(
            KeyRequest(policy: .pin, prompt: prompt), authorizedBy: TerminalPresence())
        print(key.assurance, key.publicKey.pemRepresentation)
    }
}
