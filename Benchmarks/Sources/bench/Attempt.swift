/// The attempts to meet a goal that is not met, with figures and the limiting factor.
struct Attempt {
    /// The start of the names of the goals.
    let work: String
    let text: String

    /// The attempts for the goals above their limits.
    static func forMissed(_ goals: [Goal]) -> [Attempt] {
        all.filter { attempt in
            goals.contains { $0.isMet == false && $0.work.hasPrefix(attempt.work) }
        }
    }

    /// The figures are of 2026-11-26, from several builds on a machine where `/bin/true` took
    /// 1.2–1.9 ms. Documentation/Benchmarks.md has the values of one run. Programs for comparison
    /// are the same release build with fewer parts.
    private static let all = [
        Attempt(
            work: "latchkey --version",
            text: """
                libsystemd, libp11 and libcrypto are loaded at their first use, the version is printed first, and functions \
                are in the order of their use: 965 to 640 page faults, 17.7 to 8.0 MB. 390 of the faults are the loader's, \
                which relocates 1.5 MB of tables; a program without Foundation takes 2.2 ms. Code at a fixed address would \
                need no relocation, but the address would not be random. Not done: loading p11-kit at its first use. It \
                saves 0.3 ms, but without p11-kit, Latchkey would report a token's keys as damaged. Not done: a second \
                program for all commands except --version. It saves 0.2 MB of tables, but each of those commands would start \
                two programs.
                """),
        Attempt(
            work: "latchkey status",
            text: """
                Saved: 5 ms by a compiler option (generic types without searches of conformances), 1.7 ms by loading \
                libcrypto at its first use, 1 to 2 ms by functions in the order of their use. Processor time without the \
                last two, 19 ms: argument parser 5.1, loader 3.5, 37 searches of 11,300 conformances 2.4 (half of them for \
                the parser), SQLite and GRDB 1.8, closing the store 1.0, threads 0.5, other work 4.7 ms. Tried without \
                effect: code optimized for size, one heap for all threads, fewer checks in the parser. NIO, X.509 and the \
                facades have 20 % of the conformances, so a program without them would save less than 1 ms. The limit with \
                this store is a program that only opens it: 9–10 ms.
                """),
        Attempt(
            work: "latchkey key list", text: "See latchkey status."),
        Attempt(
            work: "one latchkey key sign process",
            text: "See latchkey status. The floor is a C program that sends the PIN in clear text."),
        Attempt(
            work: "peak memory of latchkey key sign",
            text: """
                31.3 MB; 18.2 MB with functions in the order of their use; 16.3 MB if the linker also groups Swift's private \
                functions and the read-only constants. Of these, 4 MB belong to this process alone.
                """),
        Attempt(
            work: "installed size of latchkey",
            text: """
                82 MB became 51 MB: scripts/lib/icu-data.py reduces ICU's data from 34 to 5 MB, and the linker removes unused \
                functions (3 MB). Of the rest, 32 MB are code, 7 MB tables for unwinding, 4 MB other constants. The largest parts of the \
                code: Foundation and ICU 7 MB, Swift's runtime and library 6 MB, this package 8 MB, GRDB 1.4 MB, NIO 1.3 MB, X.509 \
                0.9 MB. Code optimized for size saves 3.5 MB, merging equal functions (--icf=all) 0.6 MB. Without GRDB, which imports \
                Foundation, the goal could be met; not tried.
                """),
        Attempt(
            work: "peak memory of idle",
            text: """
                With functions in the order of their use: latchkey-presenced 20.6 to 14.5 MB, identity 37.1 to 23.2, \
                passkeys 27.3 to 17.4. Most of this memory is pages of the program's file, which the kernel maps in groups \
                of 64 KiB and can drop.
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
            work: "first build of the README's app",
            text: """
                Processor time: BoringSSL 133 s, GRDB 53 s, this package 47 s, the Swift code of swift-crypto 36 s, \
                swift-asn1 15 s, SwiftPM 7 s. Traits leave out all other packages (29 without traits). Without an index and \
                debug information, BoringSSL takes 15 % less, which saves 10 s of 3 minutes.
                """),
        Attempt(
            work: "release build",
            text: """
                A build with the benchmarks takes 27 minutes of processor time, on two processors. Optimizing for size takes \
                21 minutes, but does not make the programs faster, so it is not used.
                """),
        Attempt(
            work: "scripts/test in",
            text: """
                The build takes half of the time, and the test targets take nearly half of the build. A typical test target \
                spends 40 % of its time on type checks and 35 % on machine code. Tried without effect: each module as one \
                unit, no index, no debug information. The tests use 85 % of both processors; 9 % of this are \
                ArgumentParser's checks of all definitions, which a debug build makes at each start of a command. Samples of \
                two repeated races and two fault tests saved 85 s. The scripts run SwiftPM with a fixed environment, so a \
                change of other variables compiles nothing (4 minutes otherwise). scripts/test --changed took 37 s after a \
                change of the core.
                """),
        Attempt(
            work: "the last .ci/run",
            text: """
                Most of the time is scripts/test. The documentation takes 33 s with the modules of the debug build, 138 s \
                without. QEMU needs 95 s for the sample of scenarios; KVM does not start here.
                """),
    ]
}
