import Foundation
import Latchkey
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
        print(try await keystore.capabilities().device)
    }
}
