import Foundation
import Latchkey

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
        print(store.path)
    }
}
