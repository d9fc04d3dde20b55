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
                A quarter of the processor time was the search of the program's 11,300 protocol conformances, mostly when the \
                runtime made generic types from their mangled names. A compiler option makes them with functions that know the \
                conformances: 26 to 21 ms of processor time on a busy machine. The parser's reflection still searches. 6,400 of the \
                conformances come from Swift, Foundation and GRDB, so a program with fewer parts would save a part of the rest. \
                The parser's check for completion scripts was skipped in a test: no difference, because its search fills the \
                cache for the next one. The limit with this store is a program that only opens it: 9–10 ms and 15 MB.
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
                82 MB became 53 MB: scripts/lib/icu-data.py reduces ICU's data from 34 to 5 MB. Of the rest, 34 MB are code, \
                7 MB tables for unwinding, 4 MB other constants. The largest parts of the code: Foundation and ICU 7 MB, Swift's \
                runtime and library 6 MB, this package 8 MB, GRDB 1.4 MB, NIO 1.3 MB, X.509 0.9 MB. Merging equal functions \
                (--icf=all) saves 0.6 MB. Without GRDB, which imports Foundation, the goal could be met; not tried.
                """),
        Attempt(
            work: "peak memory of idle",
            text: """
                When the passkey service was a part of latchkey, it used 34 MB, of which 3.8 MB were private. The rest were \
                pages of the program's file, which the kernel maps in groups of 64 KiB and can drop; a smaller program has \
                fewer of them. latchkey-uhid, which uses no other module, needs 4 MB.
                """),
        Attempt(
            work: "primed signature after the PIN",
            text: """
                The floor neither verifies the signature nor changes threads. The verification, 0.07 ms, runs while the TPM \
                flushes the key; the two changes between the task and the TPM's thread take 0.05 to 0.1 ms, because a call that \
                blocks must not use a thread of Swift's pool.
                """),
        Attempt(
            work: "PKCS#11 sign",
            text: """
                Of the processor time of a call above the floor, two thirds are two thread changes: a call that blocks must not \
                use a thread of Swift's pool. The cache of decoded keys was generic code of another module, 5 % of a call; it is \
                specialized now. A token that signs in 0.1 ms exists only in software; a YubiKey needs 50 ms and more.
                """),
        Attempt(
            work: "authenticate above",
            text: """
                5.2–6.2 ms became 4.1 ms: decoded rows are kept, SQL statements are compiled once, and the search for keys to \
                remove uses rows that were read before (five reads and a write instead of six). GRDB's thread changes and the five \
                statements of each access take 1.5 ms, the verification of the ID token 0.1 ms, JSON 1 ms. Not tried: one access \
                for several reads.
                """),
        Attempt(
            work: "first debug build",
            text: """
                Processor time: BoringSSL 100–150 s, GRDB 36 s, NIO 55 s, X.509 21 s, the other packages 130 s, the products of \
                this package 150 s. Tried without effect: each module as one unit, no index, no debug information.
                """),
        Attempt(
            work: "scripts/test in",
            text: """
                The build takes half of the time, and the test targets take nearly half of the build. A typical test target spends \
                40 % of its time on type checks and 35 % on machine code. Tried without effect: each module as one unit, no index, \
                no debug information. The tests use 85 % of both processors; 9 % of this are ArgumentParser's checks of all \
                definitions, which a debug build makes at each start of a command. Samples of two repeated races and two fault \
                tests saved 85 s.
                """),
        Attempt(
            work: "the last .ci/run",
            text: """
                Most of the time is scripts/test. The documentation took 138 s, because SwiftPM built all modules again; it reads the \
                modules of the debug build now, in 33 s. QEMU needs 95 s for the sample of scenarios; KVM does not start here.
                """),
    ]
}
