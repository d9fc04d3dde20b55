import Foundation
import Latchkey
import LatchkeyLocker
import LatchkeyPresence
import LatchkeyTPM

/// Encrypts text that only a session of the enrolled user on this machine can decrypt.
@main
struct LockerExample {
    static let usage = """
        Usage: locker encrypt LEVEL < FILE   print the encrypted text
               locker decrypt LEVEL < FILE   print the text again
               locker forget                 end the enrolment; no text can be decrypted any more

        LEVEL is the session that is necessary: base (none), background (a token without a prompt),
        offline (the PIN, also without a network) or active (the PIN and the server).
        """

    static func main() async {
        ProcessMemory.protect()
        do {
            try await run(Array(CommandLine.arguments.dropFirst()))
        } catch {
            tell("\(error) \((error as? any ReportableError)?.recovery ?? "")")
            exit(1)
        }
    }

    static func run(_ arguments: [String]) async throws {
        let locker = try await openLocker()
        let level = arguments.dropFirst().first.flatMap { ProtectionLevel(rawValue: $0) }
        switch (arguments.first, level) {
        case ("encrypt", let level?):
            let text = readInput()
            try await startSession(for: level, in: locker)
            print(try locker.encrypt(secret: text, protectionLevel: level))
        case ("decrypt", let level?):
            let text = readInput()
            try await startSession(for: level, in: locker)
            print(try locker.decrypt(encryptedSecret: text))
        case ("forget", nil):
            try await locker.endAuthSession(mode: .destroy)
            return tell("This machine is no longer enrolled.")
        default:
            tell(usage)
            exit(2)
        }
        if locker.getAuthSessionStatus().phase != .enrolled {
            try await locker.endAuthSession(mode: .lock)
        }
    }

    /// Opens the app's locker, with keys in this machine's TPM. Does not prompt.
    static func openLocker() async throws -> Locker {
        let environment = ProcessInfo.processInfo.environment
        let store = try await RecordStore(
            directory: RecordStore.defaultDirectory(environment: environment), profile: "locker")
        let keystore = TPMKeystore(tcti: environment["LATCHKEY_TCTI"], anchors: store)
        return try await ErsteGroupAuth.shared.initializeLocker(
            LockerConfiguration(
                issuer: environment["LATCHKEY_ENDPOINT"] ?? "http://127.0.0.1:40123",
                clientID: environment["LATCHKEY_CLIENT_ID"] ?? "latchkey-demo",
                records: RecordContainer(store: store, keystore: keystore),
                presence: TerminalPresence(application: "Locker"),
                channel: BrowserChannel(SystemBrowser(environment: environment, message: tell)),
                easyAccessPolicy: .pin, offlineVerification: OfflineVerification(),
                logger: NoLog()))
    }

    /// Starts the session that opens the level. The first one enrols this machine, with a login in
    /// the browser and a new PIN.
    static func startSession(for level: ProtectionLevel, in locker: Locker) async throws {
        if locker.getAuthSessionStatus().phase == .unregistered {
            try await locker.startAuthSession()
        } else if level == .background {
            try await locker.backgroundAccess()
        } else if level != .base {
            try await locker.startAuthSession()
        }
    }

    static func readInput() -> String {
        let input = FileHandle.standardInput.readDataToEndOfFile()
        return String(decoding: input, as: UTF8.self).trimmingCharacters(in: .newlines)
    }

    /// Prints a text for the user. Standard output has only the result.
    @Sendable static func tell(_ text: String) {
        try? FileHandle.standardError.write(contentsOf: Data("\(text)\n".utf8))
    }
}

/// Discards the log. Without a logger, a debug build prints it.
struct NoLog: Logger {
    func handleLogMessage(_ message: String, level: LogLevel) {}
}
