internal import FoundationEssentials
internal import Glibc
package import Latchkey

extension PinentryPresence {
    /// The programs that need a terminal.
    private static let terminalPrograms: Set = ["pinentry-curses", "pinentry-tty"]
    /// The programs that need a desktop, or without one a terminal.
    private static let desktopPrograms: Set = [
        "pinentry-gnome3", "pinentry-gtk", "pinentry-gtk-2", "pinentry-qt",
        "pinentry-qt4", "pinentry-qt5", "pinentry-x11", "pinentry-fltk", "pinentry-efl",
    ]

    /// The reason why the program cannot prompt, as far as its name and the environment tell. Does
    /// not run the program.
    ///
    /// - Parameter environment: As for ``init(program:environment:timeout:)``.
    package static func obstacle(environment: [String: String]) -> KeystoreError? {
        let program = environment["PINENTRY_PROGRAM"] ?? "pinentry"
        guard let path = path(of: program, in: environment["PATH"] ?? "") else {
            return .unavailable(
                "there is no program ‘\(program)’ for the prompt",
                recovery: Recovery("Install a pinentry.").then(KeystoreError.orOtherPINSource))
        }
        let name = URL(filePath: path).resolvingSymlinksInPath().lastPathComponent
        let settings = PinentrySettings(environment: environment)
        guard settings.terminal == nil else { return nil }
        if terminalPrograms.contains(name) {
            return settings.obstacle(
                "\(name) has no terminal for the prompt",
                recovery: Recovery(
                    "Install a pinentry for your desktop, or set GPG_TTY to the path of a terminal."
                ).then(KeystoreError.orOtherPINSource))
        }
        // A distribution's own “pinentry” starts one of these.
        let isUsual = environment["PINENTRY_PROGRAM"] == nil && name == program
        if isUsual || desktopPrograms.contains(name), !hasDesktop(environment: environment) {
            return settings.obstacle(
                "\(name) has neither a terminal nor a desktop for the prompt",
                recovery: Recovery(
                    "Start the program in a graphical session, or set GPG_TTY to the path of a terminal."
                ).then(KeystoreError.orOtherPINSource))
        }
        return nil
    }

    /// Whether the environment names the display of a desktop.
    package static func hasDesktop(environment: [String: String]) -> Bool {
        ["DISPLAY", "WAYLAND_DISPLAY"].contains { environment[$0].map { !$0.isEmpty } ?? false }
    }

    private static func path(of program: String, in path: String) -> String? {
        let candidates =
            program.contains("/")
            ? [program] : path.split(separator: ":").map { "\($0)/\(program)" }
        return candidates.first { access($0, X_OK) == 0 }
    }
}
