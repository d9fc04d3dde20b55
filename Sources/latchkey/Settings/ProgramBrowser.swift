import FoundationEssentials
import Latchkey
import LatchkeyLogin
import Subprocess
import SystemPackage

/// The person's browser: the program that `$BROWSER` names, else `xdg-open`, with the address as its last argument.
///
/// `$BROWSER` may have arguments, split at spaces; `%s` among them stands for the address. Where the program can't be
/// started or fails, the address is told and the login waits for whoever opens it.
struct ProgramBrowser: Browser {
    let console: Console
    let environment: [String: String]

    func open(_ url: String) async {
        let minutes = AuthorizationOptions().timeout.components.seconds / 60
        console.say(
            "The login page opens in your browser, and the login waits \(minutes) minutes for it. If it does not open, "
                + "open this address in one yourself; if the page knows no such app, press Ctrl-C and check --client-id: "
                + url)
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
        case .success(false)?: warn("‘\(words[0])’ failed", url)
        case .failure(let error)?:
            // Subprocess's sentences end with a full stop, and so does ours.
            var reason = "\(error)"
            if reason.hasSuffix(".") { reason.removeLast() }
            warn("‘\(words[0])’ can't be started: \(reason)", url)
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

    private func warn(_ reason: String, _ url: String) {
        console.warn("\(reason). Open this address in a browser yourself; the login waits for it: \(url)")
    }
}
