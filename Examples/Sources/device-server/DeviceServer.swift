import Crypto
import Foundation
import Hummingbird
import Latchkey
import LatchkeyRelyingParty
import LatchkeySQLite

/// An identity server with one user, which accepts keys of Latchkey clients. Sessions and the key
/// that signs ID tokens are in memory; challenges and devices are in a file.
@main
struct DeviceServer {
    static func main() async throws {
        let environment = ProcessInfo.processInfo.environment
        guard let password = environment["DEMO_PASSWORD"], !password.isEmpty else {
            FileHandle.standardError.write(Data("Set DEMO_PASSWORD, the user's password.\n".utf8))
            exit(2)
        }
        let port = environment["PORT"].flatMap(Int.init) ?? 40124
        let database = try SQLiteDatabase(
            path: environment["DATABASE"] ?? "devices.sqlite", creating: true)
        try await database.migrate(
            DatabaseChallengeStore.migrations + DatabaseDeviceRegistry.migrations)
        let service = LoginService(
            issuer: "http://127.0.0.1:\(port)", password: password, database: database)
        let application = Application(
            router: service.router(),
            configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: port)),
            onServerRunning: { _ in
                FileHandle.standardOutput.write(Data("Listening on \(service.issuer)\n".utf8))
            })
        do {
            try await application.runService()
        } catch {
            // For example, another program uses the port.
            FileHandle.standardError.write(
                Data("The server cannot run: \(error). For another port, set PORT.\n".utf8))
            exit(1)
        }
    }
}
