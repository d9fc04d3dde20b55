import FoundationEssentials
import Latchkey
import LatchkeyLogin
import Subprocess
import SystemPackage

/// The person's browser: the program that `$BROWSER` names, else `xdg-open`, with the address as its last argument.
///
/// `$BROWSER` may have arguments, split at spaces; `%s` among them stands for the address.
struct ProgramBrowser: Browser {
    let console: Console
    let environment: [String: String]

    func open(_ url: String) async throws {
        console.say(
            "The login page opens in your browser. If it does not, open this address in one yourself: \(url)")
        let (ends, end) = AsyncStream.makeStream(of: Result<Bool, any Error>.self)
        // Not a child task: a browser outlives the login, and must not be ended with it.
        Task {
            do {
                end.yield(.success(try await run(url)))
            } catch {
                end.yield(.failure(error))
            }
            end.finish()
        }
        switch await ends.first(where: { _ in true }) {
        case .success(true)?, nil: return
        case .success(false)?: throw Self.failure("‘\(words[0])’ failed")
        case .failure(let error)?: throw Self.failure("‘\(words[0])’ can't be started: \(error)")
        }
    }

    private var words: [String] {
        let named = environment["BROWSER"] ?? ""
        if FileManager.default.isExecutableFile(atPath: named) { return [named] }
        let words = named.split(separator: " ").map(String.init)
        return words.isEmpty ? ["xdg-open"] : words
    }

    private func run(_ url: String) async throws -> Bool {
        var arguments = words.dropFirst().map { $0.replacing("%s", with: url) }
        if !words.contains(where: { $0.contains("%s") }) { arguments.append(url) }
        var platform = PlatformOptions()
        // Ctrl-C at the prompt is for us.
        platform.createSession = true
        let program: Executable = words[0].contains("/") ? .path(FilePath(words[0])) : .name(words[0])
        let result = try await Subprocess.run(
            program, arguments: Arguments(arguments), platformOptions: platform, output: .discarded, error: .discarded)
        return result.terminationStatus.isSuccess
    }

    private static func failure(_ reason: String) -> KeystoreError {
        KeystoreError(
            operation: "show the login page", code: .unavailable, reason: reason,
            recovery: "Set BROWSER to a program that opens an address, or install xdg-utils.")
    }
}
