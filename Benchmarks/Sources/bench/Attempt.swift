/// The attempts to meet a goal that is not met, with figures and the limiting factor.
struct Attempt {
    /// The start of the names of the goals.
    let work: String
    let text: String

    /// The attempts for the goals above their limits.
    static func forMissed(_ goals: [Goal]) -> [Attempt] {
        all.filter { attempt in goals.contains { $0.isMet == false && $0.work.hasPrefix(attempt.work) } }
    }

    /// The figures are of 2026-11-26, in one run on a machine where `/bin/true` took 1.3–1.9 ms. Programs for comparison are the
    /// same release build with fewer parts.
    private static let all = [
        Attempt(
            work: "latchkey --version",
            text: """
                libsystemd, libp11 and libcrypto are loaded at their first use, and the version is printed first: 9.2 to 6.6 million \
                instructions, 965 to 830 page faults, 17.7 to 14.3 MB, processor time 10 to 7 ms. The loader then needs 5.5 of \
                6.6 million instructions. A program with only the core and its store takes 3.6 ms and 8.2 MB for the same output, \
                one without Foundation 2.2 ms and 3.5 MB. Not done: a second program for the other commands, because each of \
                them would start two programs.
                """),
        Attempt(
            work: "latchkey status",
            text: """
                Of 47 million instructions, the argument parser takes 21: Swift's runtime searches the 11,300 protocol \
                conformances of the program for each new combination of types. 6,400 of them come from Swift, Foundation and \
                GRDB, so a program with fewer parts would save a third. The parser's check for completion scripts \
                was skipped in a test: no difference, because its search fills the cache for the next one. Opening the store \
                takes 5.6 million. The limit with this store is a program that only opens it: 9–10 ms and 15 MB.
                """),
        Attempt(
            work: "latchkey key list", text: "See latchkey status."),
        Attempt(
            work: "one latchkey key sign process",
            text: "See latchkey status. The floor is a C program that sends the PIN in clear text."),
        Attempt(
            work: "peak memory of latchkey key sign",
            text: "See latchkey status: 4 MB are private; the rest are pages of the program's file and the libraries."),
        Attempt(
            work: "installed size of latchkey",
            text: """
                With all of ICU's data, 82 MB: 31 MB of data and 34 MB of code; the compressed package with latchkey-agent had \
                47 MB, and a program with only the core and its store 63 MB. GRDB imports Foundation, whose static library \
                contains ICU; removing unused sections does not remove it. scripts/lib/icu-data.py now reduces the data to 5 MB. \
                Not tried: a dynamic Foundation, which takes 10 ms more at each start.
                """),
        Attempt(
            work: "peak memory of idle",
            text: """
                When the passkey service was a part of latchkey, it used 34 MB, of which 3.8 MB were private. The rest were \
                pages of the program's file, which the kernel maps in groups of 64 KiB and can drop; a smaller program has \
                fewer of them. latchkey-uhid, which uses no other module, needs 4 MB.
                """),
    ]
}
