internal import FoundationEssentials
internal import Subprocess
internal import SystemPackage

/// The user's web browser: the programs in `$BROWSER`, otherwise `xdg-open`. The address is the last
/// argument.
///
/// `$BROWSER` is a list of commands, separated by colons, that are tried until one succeeds. A
/// command may have arguments, separated by spaces; the address replaces `%s` in them. If no program
/// can be started, or all fail, the user sees the address, and the call waits until the user opens
/// it.
public struct SystemBrowser: Browser {
    private let environment: [String: String]
    private let message: @Sendable (String) -> Void
    private let warning: @Sendable (String) -> Void

    /// - Parameters:
    ///   - environment: The program's environment, for `$BROWSER`.
    ///   - message: Shows the user a text with the address of the page.
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
        message(
            "The server's page opens in your browser. This program waits for the browser. "
                + "If the page does not open, open this address yourself: " + url + tunnel(for: url)
        )
        let (ends, end) = AsyncStream.makeStream(of: String?.self)
        // Not a child task: the browser continues to run after the login.
        Task {
            end.yield(await startFirst(url))
            end.finish()
        }
        if case .some(.some(let failure)) = await ends.first(where: { _ in true }) {
            warn(failure, url)
        }
    }

    public func show(_ notice: String) { warning(notice) }

    /// The commands to try.
    var commands: [[String]] {
        let named = environment["BROWSER"] ?? ""
        if FileManager.default.isExecutableFile(atPath: named) { return [[named]] }
        let commands = named.split(separator: ":").map { command in
            let path = String(command)
            return FileManager.default.isExecutableFile(atPath: path)
                ? [path] : command.split(separator: " ").map(String.init)
        }.filter { !$0.isEmpty }
        return commands.isEmpty ? [["xdg-open"]] : commands
    }

    /// Tries the commands until one succeeds.
    ///
    /// - Returns: Why none succeeded, as a clause; nil after a success.
    private func startFirst(_ url: String) async -> String? {
        var failures: [String] = []
        for command in commands {
            do {
                if try await run(command, url) { return nil }
                failures.append("‘\(command[0])’ failed")
            } catch {
                // Both this reason and the sentence around it end with a full stop.
                var reason = "\(error)"
                if reason.hasSuffix(".") { reason.removeLast() }
                failures.append("‘\(command[0])’ cannot be started: \(reason)")
            }
        }
        return failures.joined(separator: "; ")
    }

    private func run(_ command: [String], _ url: String) async throws -> Bool {
        var arguments = command.dropFirst().map { $0.replacing("%s", with: url) }
        if !command.contains(where: { $0.contains("%s") }) { arguments.append(url) }
        var platform = PlatformOptions()
        // Ctrl-C on the terminal is for this process only.
        platform.createSession = true
        let program: Executable =
            command[0].contains("/") ? .path(FilePath(command[0])) : .name(command[0])
        let result = try await Subprocess.run(
            program, arguments: Arguments(arguments), platformOptions: platform, output: .discarded,
            error: .discarded)
        return result.terminationStatus.isSuccess
    }

    /// In an SSH session without a display, how a browser on the other computer reaches the address.
    private func tunnel(for url: String) -> String {
        func isSet(_ name: String) -> Bool { environment[name]?.isEmpty == false }
        guard isSet("SSH_CONNECTION"), !isSet("DISPLAY"), !isSet("WAYLAND_DISPLAY"),
            let port = url.split(separator: "/").dropFirst().first?.split(separator: ":").last
                .flatMap({ UInt16($0) })
        else { return "" }
        return
            "\nThis SSH session has no display. For the browser of the computer that you come from, first run "
            + "‘\(LoopbackNotice.tunnel(port))’ there, with the same destination as this session."
    }

    private func warn(_ reason: String, _ url: String) {
        warning(
            "\(reason). Open this address in a browser yourself; this program waits for it: \(url)"
                + tunnel(for: url))
    }
}
