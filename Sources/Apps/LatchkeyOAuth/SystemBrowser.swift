internal import FoundationEssentials
internal import Subprocess
internal import SystemPackage

/// The user's web browser: the program in `$BROWSER`, otherwise `xdg-open`. The address is the last
/// argument.
///
/// `$BROWSER` may have arguments, separated by spaces; the address replaces `%s` in them. If the
/// program cannot be started or fails, the user sees the address, and the login waits until the
/// user opens it.
public struct SystemBrowser: Browser {
    private let environment: [String: String]
    private let message: @Sendable (String) -> Void
    private let warning: @Sendable (String) -> Void

    /// - Parameters:
    ///   - environment: The program's environment, for `$BROWSER`.
    ///   - message: Shows the user a text with the address of the login page.
    ///   - warning: Shows the user that the browser did not start, and the address; nil to show it
    ///     as a message.
    public init(
        environment: [String: String], message: @escaping @Sendable (String) -> Void,
        warning: (@Sendable (String) -> Void)? = nil
    ) {
        self.environment = environment
        self.message = message
        self.warning = warning ?? message
    }

    public func open(_ url: String) async {
        let minutes = AuthorizationOptions().timeout.components.seconds / 60
        message(
            "The login page opens in your browser. The login waits \(minutes) minutes. "
                + "If the page does not open, open this address yourself: " + url)
        let (ends, end) = AsyncStream.makeStream(of: Result<Bool, any Error>.self)
        // Not a child task: the browser continues to run after the login.
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
            // Both this reason and the sentence around it end with a full stop.
            var reason = "\(error)"
            if reason.hasSuffix(".") { reason.removeLast() }
            warn("‘\(words[0])’ cannot be started: \(reason)", url)
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
        // Ctrl-C on the terminal is for this process only.
        platform.createSession = true
        let program: Executable =
            words[0].contains("/") ? .path(FilePath(words[0])) : .name(words[0])
        let result = try await Subprocess.run(
            program, arguments: Arguments(arguments), platformOptions: platform, output: .discarded,
            error: .discarded)
        return result.terminationStatus.isSuccess
    }

    private func warn(_ reason: String, _ url: String) {
        warning(
            "\(reason). Open this address in a browser yourself; the login waits for it: \(url)")
    }
}
