import Foundation
import Latchkey

@main
struct Greeting {
    static func main() async throws {
        let environment = ProcessInfo.processInfo.environment
        let store = try await RecordStore(directory: RecordStore.defaultDirectory(environment: environment))
        print(store.path)
    }
}
