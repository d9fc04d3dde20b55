// swift-tools-version: 6.2

import PackageDescription

/// The parsers under libFuzzer: the sources of the test target `FuzzTests`, and a driver. This is a
/// separate package, so that the build with coverage includes the dependencies and does not affect
/// other builds. Run it with `scripts/fuzz`.
let package = Package(
    name: "latchkey-fuzz",
    dependencies: [.package(name: "latchkey", path: "../../..")],
    targets: [
        // Part of the toolchain: `-sanitize=fuzzer` links it.
        .systemLibrary(name: "CLibFuzzer", path: "CLibFuzzer"),
        .executableTarget(
            name: "fuzz",
            dependencies: ["CLibFuzzer"]
                + [
                    "_LatchkeyInternals", "Latchkey", "LatchkeyTPM", "LatchkeyPKCS11",
                    "LatchkeyCertificates",
                    "LatchkeyPresence",
                    "LatchkeyOAuth", "LatchkeyLogin", "LatchkeyCredentials", "LatchkeyLocker",
                    "LatchkeyRelyingParty",
                    "VirtualSmartCard",
                ].map { .product(name: $0, package: "latchkey") },
            path: ".",
            exclude: ["Corpus", "FuzzCorpusTests.swift"],
            sources: ["Parsers", "Driver"],
            swiftSettings: [
                .swiftLanguageMode(.v6),
                .enableUpcomingFeature("ExistentialAny"),
                .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
            ]
        ),
    ]
)
