// swift-tools-version: 6.2

import PackageDescription

/// The parsers under libFuzzer: the sources that the test target `FuzzTests` also has, and a driver. A package of its
/// own, so that all of it, the dependencies included, is built with coverage, and nobody else builds it. Run it with
/// `scripts/fuzz`.
let package = Package(
    name: "latchkey-fuzz",
    dependencies: [.package(name: "latchkey", path: "../..")],
    targets: [
        // In the toolchain: `-sanitize=fuzzer` links it.
        .systemLibrary(name: "CLibFuzzer", path: "CLibFuzzer"),
        .executableTarget(
            name: "fuzz",
            dependencies: ["CLibFuzzer"]
                + [
                    "TPM2", "Latchkey", "LatchkeyTPM", "LatchkeyPKCS11", "LatchkeyCertificates", "LatchkeyPresence",
                    "LatchkeyLogin", "LatchkeyCredentials", "LatchkeyLocker", "LatchkeyRelyingParty",
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
