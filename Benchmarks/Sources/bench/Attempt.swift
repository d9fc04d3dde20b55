/// What was tried for a goal that is not met, with figures, and what limits it.
struct Attempt {
    /// The start of the names of the goals.
    let work: String
    let text: String

    /// The attempts for the goals above their limits.
    static func forMissed(_ goals: [Goal]) -> [Attempt] {
        all.filter { attempt in goals.contains { $0.isMet == false && $0.work.hasPrefix(attempt.work) } }
    }

    /// The figures of 2026-11-25 are from a program that was linked by hand with the flags of a release from objects of a debug
    /// build and an optimised ArgumentParser, on a busy machine, in turn.
    private static let all = [
        Attempt(
            work: "latchkey --version",
            text: """
                The version is printed before the parser: 111.5 million instructions became 11.6 million (2026-11-23). A static \
                libstdc++ saved 1 MB and up to 1 ms (2026-11-25). Of 21 MB then, 8 MB were code, 6 MB data of the program, and \
                7 MB shared libraries (libcrypto, libc and libstdc++ 1.4 MB each). Not tried: a separate program for such \
                commands, and loading libp11 and libsystemd at their first use.
                """),
        Attempt(
            work: "latchkey status",
            text: """
                Only the arguments of the command itself are parsed, not those of each command of the path: 7–9 % less time and \
                0.6–0.9 MB (2026-11-25). Not tried: the store without GRDB's migrator, and a parser without reflection.
                """),
        Attempt(
            work: "one latchkey key sign process",
            text: "See latchkey status. The floor is a C program that sends the PIN in clear text."),
        Attempt(
            work: "installed size of latchkey",
            text: """
                Packages such as GRDB import Foundation, whose static library brings 37.7 MB of ICU (2026-11-25); removing unused \
                sections does not remove it. Not tried: a dynamic Foundation in the package, or ICU with fewer locales.
                """),
    ]
}
